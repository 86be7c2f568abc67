"""`tasknorm report`: finished runs beside the paper's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tasknorm.cli.exit_codes import errors
from tasknorm.report import write_report
from tasknorm.runs import records

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm report results --out results/report")
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that hold runs, at any depth.")],
    out: Annotated[Path, typer.Option(help="Folder to write the report to.")],
) -> None:
    """Put finished runs beside the paper's numbers: tables, figures, and its claims checked."""
    with errors():
        found = records(*folders)
        if not found:
            names = ", ".join(map(str, folders))
            raise FileNotFoundError(
                f"no finished run (config.json and result.json) in or below {names}; give another folder"
            )
        written = write_report(found, out)
    print(f"{len(found)} runs")
    for path in written:
        print(path)
