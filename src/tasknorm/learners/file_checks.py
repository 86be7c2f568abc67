"""Checks of a predictor's file: its tensors against the net and against each other."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from tasknorm.errors import WeightsError, at, reason, short
from tasknorm.norms import Norm

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_tensors(file: Path, tensors: Mapping[str, Tensor], module: nn.Module, prefix: str, what: str) -> None:
    """Raise unless there is a finite tensor of the right kind and shape for each of the module's, and no other.

    Args:
        file: the file.
        tensors: those of the file whose names begin with the prefix.
        module: what they are for; may be on the device "meta".
        prefix: of their names.
        what: the module in words.
    """
    own = {f"{prefix}{name}": tensor for name, tensor in module.state_dict().items()}
    other = sorted(set(own) ^ set(tensors))
    if other:
        detail = f"{short(other[0])} is {'missing' if other[0] in own else f'not of {what}'} ({len(other)} such)"
        raise WeightsError(f"{at(file)} does not fit {what}: {detail}; make it as it was when saved")
    for name, tensor in tensors.items():
        like = own[name]
        alike = tensor.dtype in FLOATS if like.is_floating_point() else tensor.dtype == like.dtype
        if tensor.shape != like.shape or not alike:
            raise WeightsError(
                f"{at(file)} does not fit {what}: {short(name)} must be {like.dtype} of shape {tuple(like.shape)}, "
                f"got {tensor.dtype} of shape {tuple(tensor.shape)}; make it as it was when saved"
            )
        if not tensor.isfinite().all():
            raise WeightsError(f"{at(file, short(name))}: damaged, not all numbers are finite; save it again")


def check_context(file: Path, tensors: Mapping[str, Tensor], net: nn.Module) -> None:
    """Raise if a norm of the net needs a context, and the file has none for it: the net was adapted to one.

    Args:
        file: the file.
        tensors: those of the net, which `check_tensors` has seen.
        net: gets the tensors.
    """
    for name, norm in net.named_modules():
        place = f"net.{name}.context_size"
        if isinstance(norm, Norm) and norm.needs_context and not int(tensors[place]) > 0:
            raise WeightsError(
                f"{at(file, short(place))}: damaged, {norm.label} needs a context of 1 image or more, got "
                f"{int(tensors[place])}; save it again"
            )


def check_classifier(file: Path, tensors: Mapping[str, Tensor], said: str | None) -> None:
    """Raise unless weight `(way, features)` and bias `(way,)` belong together, or there is neither.

    Args:
        file: the file.
        tensors: weight and bias, those that are there.
        said: "none", or the shape of the weight; None in files of version 0.1.0, which do not say it.
    """
    weight, bias = tensors.get("weight"), tensors.get("bias")
    shape = "none" if weight is None else str(tuple(weight.shape))
    if said not in (None, shape):
        raise WeightsError(
            f"{at(file, 'weight')}: damaged, the classifier must be {short(said)[1:-1]}, got {shape}; save it again"
        )
    if (weight is None) != (bias is None):
        missing = "weight" if weight is None else "bias"
        raise WeightsError(f"{at(file, missing)}: damaged, the classifier has no {missing}; save it again")
    if weight is None or bias is None:
        return
    if weight.ndim != 2 or bias.shape != weight.shape[:1] or weight.dtype not in FLOATS or weight.dtype != bias.dtype:
        raise WeightsError(
            f"{at(file, 'bias')}: damaged, weight and bias must be floats of shapes (way, features) and (way,), got "
            f"{weight.dtype} of {tuple(weight.shape)} and {bias.dtype} of {tuple(bias.shape)}; save it again"
        )
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise WeightsError(f"{at(file, short(name))}: damaged, not all numbers are finite; save it again")


def check_features(file: Path, weight: Tensor | None, net: nn.Module) -> None:
    """Raise if the classifier is for other features than the net's, by what the net says or else by a trial."""
    if weight is None:
        return
    features = getattr(net, "features", None)
    if isinstance(features, int) and features != weight.shape[1]:
        raise _other_features(file, f"{weight.shape[1]} instead of {features}")
    shape = getattr(net, "image_shape", None)
    if not isinstance(features, int) and shape is not None:
        _try(file, weight, copy.deepcopy(net), shape)


@torch.no_grad()
def _try(file: Path, weight: Tensor, net: nn.Module, shape: tuple[int, ...]) -> None:
    like = next(net.parameters())
    try:
        nn.functional.linear(net.eval()(like.new_zeros(2, *shape)), weight.to(like))
    except (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise _other_features(file, reason(error)) from None


def _other_features(file: Path, detail: str) -> WeightsError:
    return WeightsError(
        f"{at(file, 'weight')}: damaged, the classifier is for other features than the net's ({detail}); save it again"
    )
