"""`tasknorm reproduce`: the paper's tables and figures, again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tasknorm.cli.exit_codes import errors
from tasknorm.grid import experiment, names
from tasknorm.reproduce import listed, planned
from tasknorm.reproduce import reproduce as reproduce_experiments

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm reproduce maml_results --scale cpu --out runs/cpu")
def reproduce(
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Labels of the paper's tables and figures. Default: all.")
    ] = None,
    scale: Annotated[
        str, typer.Option(help="Size of the runs: paper, cpu (days of two cores) or smoke (minutes).")
    ] = "cpu",
    out: Annotated[Path | None, typer.Option(help="Folder of the runs. Default: runs/SCALE.")] = None,
    engine: Annotated[
        str, typer.Option(help="Where to run: local (processes here) or ray (the cluster at RAY_ADDRESS).")
    ] = "local",
    processes: Annotated[
        int | None, typer.Option(min=1, help="Runs at the same time. Default: one for each GPU, or core.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads for each run.")] = 1,
    part: Annotated[
        float, typer.Option(help="Share of each run's iterations to do; a larger share later continues from there.")
    ] = 1.0,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Names of the runs to do, such as 'maml-omniglot-20-*'; repeat it for more. Default: all."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List every table and figure, and run nothing.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs, and run nothing.")] = False,
) -> None:
    """Re-run the paper's tables and figures, from where they were stopped. Exit code 1 if runs failed."""
    folder = out or Path("runs") / scale
    with errors():
        chosen = [experiment(name) for name in experiments or names()]
        if list_ or dry_run:
            lines = listed(chosen, scale, folder) if list_ else planned(chosen, scale, folder, part, only or ())
            print("\n".join(lines))
            return
        failed = reproduce_experiments(chosen, scale, folder, engine, processes, threads, part=part, only=only or ())
    if failed:
        raise typer.Exit(1)
