"""`tasknorm export`: a predictor, or a learner, as a program that runs without this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tasknorm.cli.exit_codes import errors
from tasknorm.cli.flags import Net
from tasknorm.errors import SettingsError, at
from tasknorm.learners import Predictor
from tasknorm.runs import export_run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm export birds.safetensors birds.onnx")
def export(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE_OR_RUN",
            help="File of a predictor, as `tasknorm adapt` writes it; or folder of a run, for its learner.",
        ),
    ],
    out: Annotated[Path, typer.Argument(help="File to write: .onnx, or .pt2 for torch.export.load.")],
    norm: Annotated[
        str | None,
        typer.Option(help="Norm of a run's learner; TBN, CBN and RN share a training. Default: the run's own."),
    ] = None,
    net: Net = None,
) -> None:
    """Write a program as ONNX or by torch.export, with the preparation of images inside.

    Of a predictor: images in, logits of its classes out. Of a run, its learner: context images, one-hot labels and
    target images in, logits out, for any number of each.
    """
    with errors():
        if file.is_dir():
            export_run(file, out, norm)
        elif norm is not None:
            raise SettingsError(f"--norm={norm} is for the learner of a run, and {at(file)} is no folder; leave it out")
        else:
            Predictor.load(file, net).export(out)
    print(out)
