"""A learner's weights as a safetensors file that says whose they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from tasknorm.errors import WeightsError, at, one_line, reason, short
from tasknorm.files import write_atomically
from tasknorm.machine import open_regular, parsed_json

FORMAT = "1"  # of weights and checkpoints; changes when older readers would misread them


def label(learner: str, norm: str) -> dict[str, str]:
    """What a file says about its weights."""
    return {"format": FORMAT, "tasknorm": version("tasknorm"), "learner": learner, "norm": norm}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The model's state, each tensor by itself in memory."""
    return {name: tensor.detach().clone().contiguous() for name, tensor in model.state_dict().items()}


def write_weights(path: Path, weights: Mapping[str, Tensor], about: dict[str, str]) -> None:
    """Write weights, whole or not at all."""
    # One entry: safetensors keeps several in no order, and equal weights are to be equal files.
    write_atomically(path, save(dict(weights), {"about": json.dumps(about)}))


def read_weights(path: Path, about: Mapping[str, str]) -> dict[str, Tensor]:
    """The weights in a file.

    Raises:
        WeightsError: if the file is damaged or says something else about itself than `about`.
    """
    with _opened(path) as file:
        check_label(path, _label(path, file.metadata() or {}), about)
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)


def read_label(path: Path) -> dict[str, Any]:
    """What a file says about its weights.

    Raises:
        WeightsError: if the file is damaged.
    """
    with _opened(path) as file:
        found = _label(path, file.metadata() or {})
    return found if isinstance(found, dict) else {}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file of weights, open."""
    try:
        open_regular(path).close()  # what follows would wait for a pipe
        with safe_open(path, "pt") as file:
            yield file
    except OSError as error:
        raise WeightsError(
            f"{at(path)}: the weights cannot be read ({reason(error)}); correct the path, or finish the training"
        ) from None
    except SafetensorError as error:
        raise WeightsError(f"{at(path)}: damaged, {reason(error)}; restore it or train again") from None


def _label(path: Path, metadata: Mapping[str, str]) -> Any:
    try:
        return parsed_json(metadata.get("about", "{}").encode(errors="surrogatepass"))
    except ValueError as error:
        raise WeightsError(
            f"{at(path, 'about')}: damaged, this is not JSON ({reason(error)}); restore it or train again"
        ) from None


def load_into(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Give a model its weights.

    Raises:
        WeightsError: if they are not of this model; names the first that does not fit, and the file.
    """
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as error:
        first = one_line(str(error).splitlines()[1].strip())
        raise WeightsError(
            f"{at(path)}: these weights are not of the net in config.json: {first}; restore the file, or train again"
        ) from None


def check_label(path: Path, found: Any, about: Mapping[str, str]) -> None:
    """Raise if a file is of another learner, norm or format than `about` says."""
    if not isinstance(found, dict):
        raise WeightsError(f"{at(path, 'about')}: damaged, a table is needed, got {short(found)}; restore it")
    for key in ("format", "learner", "norm"):
        if found.get(key) != about[key]:
            got = short(found[key]).strip("'") if key in found else "none"
            raise WeightsError(
                f"{at(path)}: its {key} must be {about[key]}, got {got} (written by tasknorm "
                f"{short(found.get('tasknorm', 'unknown'))}); use the {'version' if key == 'format' else key} that "
                "wrote it"
            )
