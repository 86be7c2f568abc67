"""Weights that CNAPs' authors released, as ours: their names for our tensors, and their files.

Their networks are ours under other names (Requeima et al., 2019), with three differences that change no number. Their
SCALE and OFFSET have shape `(1,)`, ours `()`. Their layers may keep the moments of a last context, which nothing uses.
Their FiLM parameters are not in the file; ours are, as the identity. A file is read by `weights_only=True`, which makes
tensors and plain containers, and calls nothing else that the file names.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, BinaryIO

import torch
from torch import Tensor

from tasknorm.errors import WeightsError, at, one_line, reason, short
from tasknorm.machine import open_regular
from tasknorm.nets import resnet18
from tasknorm.norms import CBN

LARGEST = 1 << 32  # bytes of a file
STARTS = (b"PK\x03\x04", b"\x80\x02\x8a\x0a")  # of files that torch.save writes, today and before version 1.6
COUNT = ".num_batches_tracked"
PARTS = {"": "", "extractor.": "feature_extractor."}  # of CNAPs that have a file of their own: ours, theirs
ALPHA = {"alpha_scale": "a", "alpha_offset": "b"}
WRONG = "give the authors' file meta_trained_film+task_norm.pt, or pretrained_resnet.pt.tar, as it was released"

# Our names, with one of theirs for each.
NAMES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"set_encoder\.convs\.(\d)", lambda m: f"set_encoder.pre_pooling_fn.layer{int(m[1]) + 1}.0"),
    (r"set_encoder\.norms\.(\d)", lambda m: f"set_encoder.pre_pooling_fn.layer{int(m[1]) + 1}.1"),
    (r"extractor\.stem", lambda m: "feature_extractor.conv1"),
    (r"extractor\.norm", lambda m: "feature_extractor.bn1"),
    (r"extractor\.stages\.(\d)\.(\d)\.conv(\d)", lambda m: f"feature_extractor.layer{int(m[1]) + 1}.{m[2]}.conv{m[3]}"),
    (r"extractor\.stages\.(\d)\.(\d)\.norm(\d)", lambda m: f"feature_extractor.layer{int(m[1]) + 1}.{m[2]}.bn{m[3]}"),
    (
        r"extractor\.stages\.(\d)\.(\d)\.shortcut\.(\d)",
        lambda m: f"feature_extractor.layer{int(m[1]) + 1}.{m[2]}.downsample.{m[3]}",
    ),
    (r"film_generator\.shared\.stages-(\d)", lambda m: f"feature_adaptation_network.layers.{m[1]}.shared_layer.0"),
    (
        r"film_generator\.residuals\.stages-(\d)-(\d)-film(\d)-(gamma|beta)\.layers\.(\d)",
        lambda m: f"feature_adaptation_network.layers.{m[1]}.{m[4]}{m[3]}_processors.{m[2]}.{2 * int(m[5])}.linear",
    ),
    (
        r"film_generator\.residuals\.stages-(\d)-(\d)-film(\d)-(gamma|beta)\.size",
        lambda m: f"feature_adaptation_network.layers.{m[1]}.{m[4]}{m[3]}_regularizers.{m[2]}",
    ),
    (
        r"classifier_generator\.(weight|bias)\.(\d)",
        lambda m: f"classifier_adaptation_network.{m[1]}_means_processor.linear{int(m[2]) // 2 + 1}",
    ),
)


def released_name(name: str) -> str | None:
    """The authors' name for a tensor of CNAPs; None for FiLM's gamma and beta and for a context, which they lack.

    >>> released_name("extractor.stages.3.0.norm2.alpha_scale")
    'feature_extractor.layer4.0.bn2.a'
    """
    for pattern, theirs in NAMES:
        if match := re.fullmatch(rf"{pattern}(?:\.([a-z_]+))?", name):
            last = match[match.re.groups]
            if last is None:
                return theirs(match)
            return None if last.startswith("context_") else f"{theirs(match)}.{ALPHA.get(last, last)}"
    return None


def is_released(path: Path) -> bool:
    """Whether a file is one that `torch.save` wrote; False if it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(4) in STARTS
    except OSError:
        return False


def read_released(path: Path) -> dict[str, Tensor]:
    """The tensors in a file that `torch.save` wrote, by name.

    They may be under the key `state_dict`, and each name may begin with `module.`.

    Raises:
        WeightsError: if the file cannot be read, is damaged, or holds anything but tensors.
    """
    try:
        with open_regular(path) as file:
            _check_size(file)
            found: Any = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise WeightsError(f"{at(path)}: the weights cannot be read ({reason(error)}); correct the path") from None
    except Exception as error:  # a damaged file makes torch raise nearly anything
        raise WeightsError(f"{at(path)}: not a whole file of tensors ({_why(error)}); {WRONG}") from None
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict) or not found:
        raise WeightsError(f"{at(path)}: tensors by name are needed, got a {type(found).__name__}; {WRONG}")
    for name, tensor in found.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise WeightsError(
                f"{at(path)}: tensors by name are needed, got {short(name)} with a {type(tensor).__name__}; {WRONG}"
            )
    if all(name.startswith("module.") for name in found):
        found = {name.removeprefix("module."): tensor for name, tensor in found.items()}
    return dict(found)


def as_ours(found: Mapping[str, Tensor], like: Mapping[str, Tensor], path: Path, part: str = "") -> dict[str, Tensor]:
    """The authors' tensors under our names.

    Args:
        found: their tensors, by their names.
        like: the state dict of our network, for names and shapes.
        path: the file, for messages.
        part: the part of CNAPs that `like` is of, one of `PARTS`; all of it if left out.

    Returns:
        The entries of such a state dict, but for those that the authors lack (see `released_name`).

    Raises:
        WeightsError: if a tensor is missing, unexpected, of another shape or dtype, or not finite; names it.
    """
    named = {name: released_name(f"{part}{name}") for name in like}
    ours = {theirs.removeprefix(PARTS[part]): name for name, theirs in named.items() if theirs}
    shapes = {name: _shape(like[own], name) for name, own in ours.items()}
    missing = [name for name in ours if name not in found and not name.endswith(COUNT)]
    if missing:
        raise WeightsError(f"{at(path)}: these tensors are missing: {_listed(missing)}; {WRONG}")
    unused = _unused(shapes)
    unexpected = [name for name in found if name not in ours and name not in unused]
    if unexpected:
        raise WeightsError(f"{at(path)}: these tensors have no place in the network: {_listed(unexpected)}; {WRONG}")
    shapes |= unused
    for name, tensor in found.items():
        _check_tensor(path, name, tensor, shapes[name])
    return {own: found[name].detach().reshape(like[own].shape).clone() for name, own in ours.items() if name in found}


def released_extractor(path: Path) -> dict[str, Tensor]:
    """The authors' pretrained ResNet-18, from `pretrained_resnet.pt.tar`, under the names of `tasknorm.nets.resnet18`.

    Raises:
        WeightsError: see `read_released` and `as_ours`.
    """
    with torch.device("meta"):
        like = resnet18(CBN).state_dict()
    return as_ours(read_released(path), like, path, "extractor.")


def _check_size(file: BinaryIO) -> None:
    """Refuse a file that would need much more memory than its size, before torch reads it."""
    size = os.fstat(file.fileno()).st_size
    if size > LARGEST:
        raise ValueError(f"{size:,} bytes, and at most {LARGEST:,} are read")
    if file.read(4) == STARTS[0]:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
        if (
            any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
            or sum(e.file_size for e in entries) > size
        ):
            raise ValueError("its parts are compressed, as torch.save never does")
    file.seek(0)


def _why(error: Exception) -> str:
    """What torch says, without its advice to unpickle the file."""
    if not isinstance(error, UnpicklingError):
        return reason(error)
    said = str(error).partition("WeightsUnpickler error:")[2].strip().partition("\n")[0]
    return one_line(said) or "it holds more than tensors"


def _shape(like: Tensor, name: str) -> tuple[int, ...]:
    """The shape that the authors' tensor has, where ours is like this."""
    return (1,) if name.rpartition(".")[2] in ALPHA.values() else tuple(like.shape)


def _unused(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The moments and size of a context that later versions of the authors' TaskNorm keep: names and shapes."""
    layers = {name.removesuffix(".a"): shapes[f"{name[:-1]}running_mean"] for name in shapes if name.endswith(".a")}
    moments = {
        f"{layer}.{last}": (1, *shape, 1, 1) for layer, shape in layers.items() for last in ("batch_mean", "batch_var")
    }
    return moments | {f"{layer}.context_size": (1,) for layer in layers}


def _check_tensor(path: Path, name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    dtype = torch.int64 if name.endswith(COUNT) else torch.float32
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise WeightsError(f"{at(path)}: {at(name)} must be a dense tensor with values, got {_kind(tensor)}; {WRONG}")
    if tuple(tensor.shape) != shape:
        raise WeightsError(f"{at(path)}: {at(name)} must have the shape {shape}, got {tuple(tensor.shape)}; {WRONG}")
    if tensor.dtype != dtype:
        raise WeightsError(f"{at(path)}: {at(name)} must have the dtype {dtype}, got {tensor.dtype}; {WRONG}")
    if not bool(tensor.isfinite().all()):
        place = int((~tensor.isfinite()).flatten().nonzero()[0])
        value = tensor.flatten()[place].item()
        raise WeightsError(f"{at(path)}: {at(name)} must be finite, got {value} at place {place}; {WRONG}")


def _kind(tensor: Tensor) -> str:
    return f"{tensor.layout} on the device {tensor.device}"


def _listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return one_line(", ".join(names[:3])) + more
