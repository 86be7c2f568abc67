"""`tasknorm compare`: which norm to use here?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tasknorm.cli.exit_codes import errors
from tasknorm.compare import COMPARED, COMPARED_TUNED, SEEDS, SHOT_TUNED, VARIANTS
from tasknorm.compare import compare as compare_norms
from tasknorm.learners import LEARNERS
from tasknorm.report import Comparison, write_page

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm compare --source folder:my_photos --way 5 --shot 5 --budget 30")
def compare(
    learner: Annotated[
        str | None,
        typer.Option(
            help=f"Learners to train, separated by commas: {', '.join((*LEARNERS, *VARIANTS))}. "
            "Default: maml; protonets with --net."
        ),
    ] = None,
    source: Annotated[
        str, typer.Option(help="Data set, or folder:PATH with a subfolder of images for each class.")
    ] = "glyphs",
    norms: Annotated[
        str | None,
        typer.Option(
            help=f"Norms to compare, separated by commas. Default: {', '.join(COMPARED)}; with --net: "
            f"{', '.join(COMPARED_TUNED)}."
        ),
    ] = None,
    net: Annotated[
        str | None,
        typer.Option(
            help="Pretrained network to tune with each norm: package.module:function, or hf:FOLDER. Default: train "
            "a small network from scratch."
        ),
    ] = None,
    pretrained: Annotated[
        Path | None, typer.Option(help="File with that network's weights: .safetensors or .pth.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(min=1, help="Height and width of the images, in pixels. Default: the preset's.")
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="How pixels are scaled (see `tasknorm train --help`). Default: the preset's.")
    ] = None,
    way: Annotated[int, typer.Option(help="Classes of each task.")] = 5,
    shot: Annotated[
        int | None, typer.Option(help=f"Context images of each class. Default: 1; {SHOT_TUNED} with --net.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help=f"Trainings of each norm, a seed each. Default: {SEEDS}, or what --budget allows."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0.1, help="Minutes to spend on seeds; the first is always done. With --seeds: what ends first."
        ),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Iterations of each training. Default: the learner's preset.")
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Test tasks of each seed.")] = 200,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="First seed; the others count up from it.")] = 0,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Leave out images that cannot be read and classes too small for a task."),
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Trainings that run at the same time. Default: the number of cores.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the trainings and report.html.")] = Path("comparison"),
) -> None:
    """Find out which norm to use here, and whether its result is transductive, by training with several norms.

    With --net and --pretrained, each norm is tuned on top of that network for minutes, and tested tuned and untuned,
    beside the network as it was.

    All norms of a seed start from the same weights and see the same tasks. The answer is valid after each seed:
    Ctrl-C keeps it, and the same command goes on.
    """
    learner, shot = learner or ("protonets" if net else "maml"), shot or (SHOT_TUNED if net else 1)
    question = {"learner": learner, "source": source, "way": way, "shot": shot, "test_tasks": tasks, "seed": seed}
    question |= {"skip_bad": skip_bad, "iterations": iterations, "net": net, "image_size": image_size, "scale": scale}
    question |= {"pretrained": None if pretrained is None else str(pretrained)}
    chosen = [norm.strip() for norm in norms.split(",")] if norms else (COMPARED_TUNED if net else COMPARED)
    latest: list[Comparison] = []

    def show(found: Sequence[Comparison]) -> None:
        latest[:] = found
        write_page(out / "report.html", found)

    with errors():
        try:
            compare_norms(question, chosen, out, seeds=seeds, minutes=budget, processes=processes, show=show)
        finally:
            _tell(latest, out / "report.html")


def _tell(found: Sequence[Comparison], page: Path) -> None:
    """Print the tables and verdicts, if there are any."""
    console = Console()
    for one in found:
        console.print(one.text())
        for sentence in one.verdict():
            console.print(sentence, highlight=False, markup=False, soft_wrap="`" in sentence)  # commands stay whole
        print()
    if found:
        print(f"The whole report, with curves: {page}")
