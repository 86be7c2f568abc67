"""`tasknorm tune`: minutes of meta-training on top of a pretrained network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tasknorm.cli.exit_codes import errors, speaks
from tasknorm.cli.flags import given, with_settings
from tasknorm.machine import keep_freed_memory
from tasknorm.runs import tune as tune_network
from tasknorm.settings import Settings, for_tuning

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
EXAMPLE = (
    "Example: tasknorm tune --net tasknorm.nets:efficientnet_lite0 --pretrained efficientnet_lite0.pth "
    "--source folder:my_photos --out runs/tuned"
)


@app.command(epilog=EXAMPLE)
@with_settings(Settings.fields(), Settings.of(for_tuning({"net": "a:b"})).values() | {"net": None})
def tune(
    out: Annotated[Path, typer.Option(help="Folder of the run; new or empty.")],
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file of settings; flags override it.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    **settings: Any,
) -> None:
    """Tune a pretrained network for few-shot tasks: what is small in it, for minutes, chosen on validation tasks.

    The network as it was is among the candidates, so that the result is never worse than it on the validation tasks.
    """
    keep_freed_memory()
    with errors():
        record = tune_network(out, resume=resume, config=config, **given(settings))
    if not speaks():
        return
    for norm, found in record.result.get("chosen", {}).items():
        each = ", ".join(f"{name} {100 * accuracy:.1f} %" for name, accuracy in found["validation"].items())
        print(f"{norm}: chosen on validation tasks: {found['candidate']} ({each})")
    for result in record.results:
        print(result)
