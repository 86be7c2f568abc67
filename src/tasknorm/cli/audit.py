"""`tasknorm audit`: does a score depend on who else is in the batch?"""

from __future__ import annotations

import json
import random
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from pydantic import ValidationError

from tasknorm.cli.exit_codes import errors
from tasknorm.cli.flags import Json
from tasknorm.data import Preparation, named_pictures
from tasknorm.errors import DataError, SettingsError, at, one_line
from tasknorm.transduction import ScorerAudit, ScorerError, audit_scorer, named_scorer, suspects

CODES = {False: 0, True: 1, None: 3}
NAMED = 3  # modules in a hint

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm audit score:predict --images photos --size 224 --scale standard")
def audit(
    scorer: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION",
            help="Function that takes a batch of images and returns scores; or one without arguments that makes such "
            "a function or a network.",
        ),
    ],
    images: Annotated[Path, typer.Option(help="Folder of images, in subfolders of any depth.")],
    batch: Annotated[int, typer.Option(min=2, max=1024, help="Images in the largest batch.")] = 32,
    size: Annotated[int, typer.Option(min=1, max=1024, help="Height and width to resize images to.")] = 224,
    channels: Annotated[int, typer.Option(min=1, max=3, help="1 for grey images, 3 for colour.")] = 3,
    scale: Annotated[
        str,
        typer.Option(
            metavar="unit|signed|standard|centred|bytes",
            help="How pixels are scaled: to 0..1, to -1..1, by ImageNet's mean and deviation, by (x - 127) / 128, or "
            "not at all (uint8).",
        ),
    ] = "unit",
    arrays: Annotated[bool, typer.Option("--arrays", help="Pass numpy arrays instead of tensors.")] = False,
    as_json: Json = False,
) -> None:
    """Find out whether the scores of an image depend on the other images in its batch.

    Exit code 0: they do not. 1: they do. 2: there is no verdict, because the function cannot be imported, raises an
    error, or something else is wrong with the command. 3: the scores are too random to tell.

    Batches have the shape (images, channels, size, size). A network is asked in the mode, train or eval, that it is in.
    """
    with errors(), redirect_stdout(sys.stderr):  # so that what a scorer prints stays out of the JSON
        pixels, others = _images(images, batch, size, channels, scale)
        score = named_scorer(scorer)
        hints = suspects(score)
        try:
            found = audit_scorer(score, pixels, others=others, arrays=arrays)
        except (ScorerError, TypeError, ValueError) as error:
            raise SettingsError(f"{scorer}: {error}") from None
        except Exception as error:  # or Python would leave with 1, which says that the scores depend on the batch
            raise SettingsError(
                f"{scorer}: the audit failed ({type(error).__name__}: {one_line(str(error))})"
            ) from None
    about = {"scorer": scorer, "images": len(pixels), "label": found.label, "exit_code": CODES[found.depends]}
    print(json.dumps(about | asdict(found) | {"suspects": hints}, indent=2) if as_json else _said(found, hints))
    raise typer.Exit(CODES[found.depends])


def _images(folder: Path, batch: int, size: int, channels: int, scale: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images to score, and as many others to be their neighbours, drawn from all folders alike."""
    preparation = _preparation(size, channels, "unit" if scale == "bytes" else scale)
    if not folder.is_dir():
        raise DataError(f"{at(folder)}: there is no folder of this name; correct --images")
    paths = named_pictures([str(folder)])
    random.Random(0).shuffle(paths)
    read: list[torch.Tensor] = []
    for path in paths:
        if len(read) == 2 * batch:
            break
        try:
            read.append(preparation.pixels([path]))
        except DataError as error:
            print(f"tasknorm: left out, {error}", file=sys.stderr)
    if len(read) < 2:
        raise DataError(f"{at(folder)}: an audit needs at least two images that can be read, got {len(read)}; add some")
    if len(read) < batch:
        print(f"tasknorm: the largest batch has {len(read)} images, which is all that {at(folder)} has")
    pixels = torch.cat(read)
    pixels = pixels if scale == "bytes" else preparation.scaled(pixels)
    return pixels[:batch], pixels[batch:]


def _preparation(size: int, channels: int, scale: str) -> Preparation:
    try:
        return Preparation.model_validate({"size": size, "channels": channels, "scale": scale})
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"--{name} " for name in first["loc"])
        raise SettingsError(f"{where}{first['msg']}, got --channels {channels} --scale {scale}") from None


def _said(found: ScorerAudit, hints: list[str]) -> str:
    lines = [str(found)]
    if found.depends and hints:
        more = f" and {len(hints) - NAMED} more" if len(hints) > NAMED else ""
        lines.append(
            f"Batch moments are used by {', '.join(hints[:NAMED])}{more}: call eval() on the network, or convert TBN."
        )
    elif found.depends is None:
        lines.append("Make the scores less random and ask again: eval() turns dropout off.")
    return "\n".join(lines)
