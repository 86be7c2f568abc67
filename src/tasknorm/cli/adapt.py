"""`tasknorm adapt`: a run put to use on classes of one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tasknorm.cli.exit_codes import errors
from tasknorm.data import class_pictures
from tasknorm.errors import DataError, at
from tasknorm.learners import Predictor
from tasknorm.machine import return_freed_memory
from tasknorm.runs import Adapter

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm adapt runs/first --context photos --out birds.safetensors")
def adapt(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    context: Annotated[Path, typer.Option(help="Folder of images to learn from, with a subfolder for each class.")],
    out: Annotated[Path, typer.Option(help="File to write the predictor to; it ends in .safetensors.")],
    norm: Annotated[
        str | None,
        typer.Option(help="Norm to predict with; TBN, CBN and RN share a training. Default: the run's own."),
    ] = None,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Leave the images out of the file, which then takes no more examples."),
    ] = False,
    invert: Annotated[
        bool | None,
        typer.Option(
            "--invert/--no-invert",
            help="Exchange light and dark: for black drawings on white and a run on glyphs. Default: as in training.",
        ),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of images that pass through the nets at a time, to save memory. Default: as in the run, or 32 "
            "if there are more than 256.",
        ),
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read.")] = False,
) -> None:
    """Adapt a run's best weights to new classes, and write a predictor of them: one file that holds all it needs."""
    return_freed_memory()
    with errors():
        if out.suffix != ".safetensors":
            raise DataError(f"{out}: the file of a predictor must end in .safetensors; rename it")
        images = class_pictures(context, (lambda why: print(why, file=sys.stderr)) if skip_bad else None)
        adapter = Adapter(run, norm, chunk=chunk)
        if invert is not None:
            adapter.preparation = adapter.preparation.model_copy(update={"inverted": invert})
        predictor = adapter(images, forget=forget)
        predictor.save(out)
    counts = ", ".join(f"{at(name)} ({len(files)})" for name, files in images.items())
    print(f"{out}: {len(images)} classes: {counts}; {predictor.label}")
    if adapter.candidate is not None:
        print(f"The run's weights were chosen on validation tasks: {adapter.candidate}.")
    print(_calibrated(predictor))


def _calibrated(predictor: Predictor) -> str:
    """What probabilities mean."""
    found, way = predictor.calibration, len(predictor.names)
    if not found.tasks:
        return (
            "Probabilities are not calibrated, and no answer is 'none of these': the run has no validation tasks, or "
            "its data are gone."
        )
    kind = "" if found.way is None else f" {found.way}-way {found.shot}-shot"
    words = (
        f"Probabilities are calibrated on {found.tasks}{kind} validation tasks (temperature {found.temperature:.3g})"
    )
    words += ", whose threshold for 'none of these' rejects 5 % of the images there"
    moved = "" if found.way in (None, way) else f" for {way} classes, by its odds"
    return f"{words}: {found.threshold_for(way):.3f}{moved}."
