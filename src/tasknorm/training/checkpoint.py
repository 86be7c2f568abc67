"""Checkpoints: everything that training needs to go on bit for bit, written whole or not at all.

A checkpoint is a folder named by its iteration: weights as safetensors, the rest (optimizer, random states, best
validation accuracies) by `torch.save`, and an index with their checksums. The last two are kept.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import safetensors.torch
import torch
from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError
from torch import Tensor

from tasknorm.errors import WeightsError, at, reason
from tasknorm.files import atomic_folder, naming, sync
from tasknorm.machine import LARGEST_TEXT, parsed_json, read_regular
from tasknorm.training.weights_file import check_label

KEPT = 2
WEIGHTS, STATE, INDEX = "weights.safetensors", "state.pt", "index.json"
# What reading a damaged checkpoint raises; ValueError also for text that is no JSON.
DAMAGE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OSError,
    EOFError,
    RuntimeError,
    UnpicklingError,
    SafetensorError,
    AssertionError,
    ArithmeticError,
)
LARGEST = 1 << 36  # bytes of a file


class Index(BaseModel):
    """What `index.json` holds: whose the checkpoint is, and the checksums of its files."""

    model_config = ConfigDict(strict=True, extra="allow")

    iteration: int = Field(ge=0, lt=10**18)
    sha256: dict[str, str]


class Checkpoint(NamedTuple):
    """Training after some iterations.

    Args:
        iteration: the number of iterations done.
        weights: the learner's state dict.
        state: all else that training needs, made of dicts, lists, numbers, strings and tensors.
    """

    iteration: int
    weights: dict[str, Tensor]
    state: dict[str, Any]


def write_checkpoint(folder: Path, checkpoint: Checkpoint, about: Mapping[str, str]) -> Path:
    """Add a checkpoint to a folder, then remove all but the last two.

    Args:
        folder: the folder of all checkpoints.
        checkpoint: the checkpoint to add.
        about: learner and norm that it belongs to (see `tasknorm.training.weights_file.label`).
    """
    place = folder / f"{checkpoint.iteration:08d}"
    state = io.BytesIO()
    torch.save(checkpoint.state, state)
    files = {WEIGHTS: safetensors.torch.save(checkpoint.weights), STATE: state.getvalue()}
    index = dict(about) | {"iteration": checkpoint.iteration, "sha256": {k: _checksum(v) for k, v in files.items()}}
    with atomic_folder(place, replace=True) as part:  # one that is there is damaged, or training would begin from it
        for name, content in (files | {INDEX: json.dumps(index, indent=2).encode()}).items():
            with naming(place / name):
                (part / name).write_bytes(content)
                sync(part / name)
    for old in _places(folder)[KEPT:]:
        shutil.rmtree(old)
    return place


def newest_checkpoint(folder: Path, about: Mapping[str, str], say: Callable[[str], object]) -> Checkpoint | None:
    """The newest checkpoint that is whole; None if there never was one.

    Args:
        folder: the folder of all checkpoints.
        about: learner and norm that it must belong to.
        say: takes a line of text if checkpoints are damaged.

    Raises:
        WeightsError: if all are damaged, or the newest is of another learner, norm or version.
    """
    damaged: list[str] = []
    for place in _places(folder):
        try:
            index, checkpoint = _read(place)
        except DAMAGE as error:
            damaged.append(f"{at(place)} ({reason(error)})")
            continue
        check_label(place, index, about)
        if damaged:
            say(f"damaged: {', '.join(damaged)}; continuing from the checkpoint before, {at(place)}")
        return checkpoint
    if damaged:
        raise WeightsError(
            f"all checkpoints are damaged: {', '.join(damaged)}; restore one of them, or start again from the "
            f"beginning: remove {at(folder)}, or choose another folder with --out"
        )
    return None


def _read(place: Path) -> tuple[dict[str, Any], Checkpoint]:
    """What a checkpoint says of itself, and the checkpoint."""
    index = Index.model_validate(parsed_json(read_regular(place / INDEX, LARGEST_TEXT)))
    weights, content = (_whole(place / name, index.sha256[name]) for name in (WEIGHTS, STATE))
    state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    if not isinstance(state, dict):
        raise ValueError(f"{STATE} holds a {type(state).__name__}, not a dict")
    return index.model_dump(), Checkpoint(index.iteration, safetensors.torch.load(weights), state)


def last_iteration(folder: Path) -> int:
    """The number of the newest checkpoint, whole or not; 0 if there is none."""
    return max((int(place.name) for place in _places(folder)), default=0)


def _places(folder: Path) -> list[Path]:
    """Checkpoints, newest first."""
    if not folder.is_dir():
        return []
    found = (path for path in folder.iterdir() if re.fullmatch("[0-9]{1,18}", path.name) and path.is_dir())
    return sorted((path for path in found if not path.is_symlink()), key=lambda path: int(path.name), reverse=True)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _whole(path: Path, checksum: str) -> bytes:
    content = read_regular(path, LARGEST)
    if _checksum(content) != checksum:
        raise ValueError(f"the checksum of {path.name} is wrong")
    return content
