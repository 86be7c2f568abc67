"""`tasknorm compare`: which norm to use here?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tasknorm.cli.exit_codes import errors
from tasknorm.compare import COMPARED
from tasknorm.compare import compare as compare_norms
from tasknorm.learners import LEARNERS
from tasknorm.machine import keep_freed_memory

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm compare --source folder:my_photos --way 5 --shot 5 --budget 30")
def compare(
    learner: Annotated[str, typer.Option(help=f"Learner to train: {', '.join(LEARNERS)}.")] = "maml",
    source: Annotated[
        str, typer.Option(help="Data set, or folder:PATH with a subfolder of images for each class.")
    ] = "glyphs",
    norms: Annotated[
        str | None, typer.Option(help=f"Norms to compare, separated by commas. Default: {', '.join(COMPARED)}.")
    ] = None,
    way: Annotated[int, typer.Option(help="Classes of each task.")] = 5,
    shot: Annotated[int, typer.Option(help="Context images of each class.")] = 1,
    budget: Annotated[float, typer.Option(min=0.1, help="Minutes that the comparison may take in all.")] = 4.0,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Iterations of each training, instead of a budget.")
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Number of test tasks.")] = 200,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of weights and tasks.")] = 0,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Leave out images that cannot be read and classes too small for a task."),
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Trainings that run at the same time. Default: the number of cores.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the trainings and report.html.")] = Path("comparison"),
) -> None:
    """Find out which norm to use here, and whether its result is transductive, by training with several norms."""
    keep_freed_memory()
    question = {"learner": learner, "source": source, "way": way, "shot": shot, "test_tasks": tasks, "seed": seed}
    question |= {"skip_bad": skip_bad}
    chosen = [norm.strip() for norm in norms.split(",")] if norms else COMPARED
    with errors():
        found = compare_norms(question, chosen, out, minutes=budget, iterations=iterations, processes=processes)
        found.write(out / "report.html")
    console = Console()
    console.print(found.text())
    for sentence in found.verdict():
        console.print(sentence, highlight=False)
    print(f"The whole report, with curves: {out / 'report.html'}")
