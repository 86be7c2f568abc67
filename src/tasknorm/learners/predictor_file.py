"""The file of a predictor: whatever it holds is checked before it is used."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from tasknorm.errors import WeightsError, at, one_line, reason, short
from tasknorm.machine import open_regular
from tasknorm.norms import Norm

FORMAT = "tasknorm predictor 1"


def read_predictor(file: Path, net: nn.Module) -> dict[str, Tensor]:
    """The tensors of a predictor's file, checked against each other and the net.

    Raises:
        WeightsError: if the file is damaged or no predictor, or is of another net or another norm.
    """
    try:
        open_regular(file).close()  # what follows would wait for a pipe
        with safe_open(file, "pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError) as error:
        raise WeightsError(
            f"{at(file)} is not a predictor: {reason(error)}; pass a file that Predictor.save wrote"
        ) from None
    if metadata.get("format") != FORMAT:
        raise WeightsError(
            f"{at(file)} has format {short(metadata.get('format'))}, not {FORMAT!r}; save the predictor again"
        )
    if metadata.get("norms") != norms_of(net):
        norms = one_line(metadata.get("norms", "that it does not name"))
        raise WeightsError(
            f"{at(file)} holds a net with norms {norms}, got one with {norms_of(net)}; make the net with the norm that "
            "it was saved with"
        )
    _check_net(file, tensors, net)
    _check_classifier(file, tensors, metadata.get("classifier"))
    return tensors


def _check_net(file: Path, tensors: dict[str, Tensor], net: nn.Module) -> None:
    """Raise unless there is a finite tensor of the right kind and shape for each of the net's, and no other."""
    own = {f"net.{name}": tensor for name, tensor in net.state_dict().items()}
    other = sorted(set(own) ^ (set(tensors) - {"weight", "bias"}))
    if other:
        what = f"{short(other[0])} is {'missing' if other[0] in own else 'not of this net'} ({len(other)} such)"
        raise WeightsError(f"{at(file)} does not fit this net: {what}; make it as it was when saved")
    for name, tensor in tensors.items():
        like = own.get(name, tensor)
        if tensor.shape != like.shape or tensor.is_floating_point() != like.is_floating_point():
            raise WeightsError(
                f"{at(file)} does not fit this net: {short(name)} must be {like.dtype} of shape {tuple(like.shape)}, "
                f"got {tensor.dtype} of shape {tuple(tensor.shape)}; make it as it was when saved"
            )
        if not tensor.isfinite().all():
            raise WeightsError(f"{at(file, short(name))}: damaged, not all numbers are finite; save it again")


def _check_classifier(file: Path, tensors: dict[str, Tensor], said: str | None) -> None:
    """Raise unless weight `(way, features)` and bias `(way,)` belong together, or there is neither.

    Args:
        file: the file.
        tensors: its tensors.
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
    floats = weight.is_floating_point() and weight.dtype == bias.dtype
    if weight.ndim != 2 or bias.shape != weight.shape[:1] or not floats:
        raise WeightsError(
            f"{at(file, 'bias')}: damaged, weight and bias must be floats of shapes (way, features) and (way,), got "
            f"{weight.dtype} of {tuple(weight.shape)} and {bias.dtype} of {tuple(bias.shape)}; save it again"
        )


def norms_of(net: nn.Module) -> str:
    """The labels of a net's norms."""
    return ", ".join(sorted({module.label for module in net.modules() if isinstance(module, Norm)}))
