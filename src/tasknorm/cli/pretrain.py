"""`tasknorm pretrain`: train a feature extractor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tasknorm.cli.exit_codes import errors
from tasknorm.cli.flags import given, with_settings
from tasknorm.machine import keep_freed_memory
from tasknorm.runs import run_of, settled
from tasknorm.settings import PretrainSettings

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm pretrain --net resnet-small --image-size 28 --epochs 20 --out runs/extractor")
@with_settings(PretrainSettings.fields(), PretrainSettings.of({}).values())
def pretrain(
    out: Annotated[
        Path, typer.Option(help="Folder of the run; its extractor.safetensors is what `train --pretrained` takes.")
    ],
    resume: Annotated[bool, typer.Option("--resume", help="Continue after the last finished epoch.")] = False,
    **settings: Any,
) -> None:
    """Train a feature extractor to tell the train classes apart. Its weights serve every norm."""
    keep_freed_memory()
    with errors():
        run_of(settled(PretrainSettings, given(settings), out, resume), out).do()
