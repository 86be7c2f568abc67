"""`tasknorm evaluate`: test the weights of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tasknorm.cli.exit_codes import errors, speaks
from tasknorm.cli.flags import Json
from tasknorm.machine import keep_freed_memory
from tasknorm.runs import evaluated

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm evaluate runs/first --targets all,example,class")
def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    targets: Annotated[
        str, typer.Option(help="How targets come: all, example or class; several separated by commas.")
    ] = "all",
    norm: Annotated[
        str | None,
        typer.Option(
            help="Norm to test; TBN, CBN and RN share a training, so each can be tested. Default: the run's own."
        ),
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Number of test tasks.")] = 600,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the test tasks.")] = 0,
    chunk: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of images that pass through the nets at a time, to save memory. Default: as in the run.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Test a run's final and best weights, and say whether the result is transductive."""
    if chunk is None:
        keep_freed_memory()
    with errors():
        found = evaluated(run, targets.split(","), norm, tasks, seed, chunk)
    if speaks():
        print(json.dumps([each.row() for each in found], indent=2) if as_json else "\n".join(map(str, found)))
