"""`tasknorm train`: meta-train a learner, and test it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from tasknorm.cli.exit_codes import errors, speaks
from tasknorm.cli.flags import given, with_settings
from tasknorm.machine import keep_freed_memory
from tasknorm.runs import Result, run_of, settled
from tasknorm.settings import Settings

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm train --learner maml --norm TaskNorm-I --way 5 --shot 1 --out runs/first")
@with_settings(Settings.fields(), Settings.of({}).values())
def train(
    out: Annotated[Path, typer.Option(help="Folder of the run; new or empty.")],
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file of settings; flags override it.")] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue the run in the folder; a finished one with more --iterations."),
    ] = False,
    **settings: Any,
) -> None:
    """Meta-train a learner and test it. Settings that are left out take the papers' values.

    The defaults below are those of MAML on glyphs; other learners and data sets take the values of their papers.
    """
    with errors():
        wanted = settled(Settings, given(settings), out, resume, config)
        if wanted.chunk is None:  # in chunks, what is kept would have gaps that nothing fits into
            keep_freed_memory()
        result = run_of(wanted, out).do()
    if speaks():
        for row in result["accuracies"]:
            print(Result.of_row(row))
        if not result["accuracies"]:
            print(_untested(out, result))


def _untested(out: Path, result: Mapping[str, Any]) -> str:
    """What a training without a test ends with: how well it did on validation tasks, and what to do next."""
    found = result.get("validation") or {"accuracy": {}}
    best = [f"{name} {100 * max(each):.1f} %" for name, each in found["accuracy"].items() if each]
    said = f"best accuracy on validation tasks: {', '.join(best)}; " if best else ""
    return f"{out}: {said}not tested. Next: tasknorm adapt {quote(str(out))} --context FOLDER --out FILE.safetensors"
