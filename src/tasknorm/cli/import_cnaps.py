"""`tasknorm import-cnaps`: the weights that CNAPs' authors released, as a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tasknorm.cli.exit_codes import errors
from tasknorm.runs import import_cnaps as imported

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm import-cnaps meta_trained_film+task_norm.pt --out runs/authors")
def import_cnaps(
    file: Annotated[
        Path,
        typer.Argument(help="File of the authors: meta_trained_film+task_norm.pt, or pretrained_resnet.pt.tar."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the run; it must not exist.")],
    test_sources: Annotated[
        str | None,
        typer.Option(help="Data sets that `evaluate` tests on, separated by commas. Default: the paper's 13."),
    ] = None,
) -> None:
    """Make a run from the weights that CNAPs' authors released, for `evaluate`, `adapt` and `export`.

    Of the pretrained ResNet alone it makes the file that `train --pretrained` takes. The file is not unpickled. If a
    tensor in it does not fit, nothing is written.
    """
    with errors():
        print(imported(file, out, test_sources))
