"""Swap the norms of any model for another kind, keeping what was trained."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from tasknorm.norms import NORMS, RUNNING, Norm, TaskNorm

Model = TypeVar("Model", bound=nn.Module)


def convert(
    model: Model,
    norm: str | Callable[..., Norm],
    *,
    where: str | Callable[[str], bool] | None = None,
    start: Literal["paper", "preserve"] | None = None,
    inplace: bool = False,
    report: Callable[[str], object] | None = None,
    **options: Any,
) -> Model:
    """Replace every batch norm, and every norm of ours, in a model.

    `BatchNorm1d/2d/3d`, `SyncBatchNorm` and all of `NORMS` are replaced, wherever they are nested; a module used in
    two places stays one module. Weight, bias, eps, running moments, device, dtype, train or eval and `requires_grad`
    are kept. Running moments survive a conversion to a norm that does not use them: a network trained with CBN becomes
    TBN, then RN, then CBN again without loss. Alpha survives between two TaskNorms of one form. Context moments do
    not: they belong to the norm that computed them, so pass the context again.

    Args:
        model: any module; may itself be a norm.
        norm: a label of `NORMS`, one of its classes, or any callable that takes `num_features`, `eps`, `momentum`
            and `affine` and makes a norm.
        where: which norms, by module name: a function of the name, or a pattern such as `"layer4.*"`. All by default.
        start: where new norms start. `"paper"`, the default, is for networks that are then trained: alpha is 1/2.
            `"preserve"` is for pretrained ones: norms that normalise with running moments at meta-test (CBN, BRN,
            Baseline) compute what the network computed, and TaskNorm-r nearly that, with alpha at 0.02. Other norms
            have no such start; TaskNorm-I and TaskNorm-L then start at alpha 0.98, which is nearest.
        inplace: change `model` itself rather than a copy. Its parameters stay the same objects, so an optimizer that
            holds them goes on working; new ones (those of alpha) have to be added to it.
        report: called with a line for each norm swapped, e.g. `print`.
        **options: passed to the norm, e.g. `alpha="independent-shared"`; they win over what the old norm had.
            `running="fixed"` keeps a pretrained network's running moments from moving in training.

    Returns:
        The model with its norms swapped. If `model` is itself a norm, the new norm.

    Raises:
        TypeError: if `model` is no module, or `norm` neither a name nor a callable.
        ValueError: if the name of the norm or `start` is unknown, or a batch norm has not seen its first input yet.

    Warns:
        UserWarning: if there was nothing to convert; or if a pretrained network must be trained before it is of use
            again, because the norm does not normalise with its running moments and `start="paper"` was not asked for.

    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    >>> convert(model, "TaskNorm-I", report=print)[1].label
    1: BatchNorm2d(8) -> TaskNormI(8)
    'TaskNorm-I'
    """
    _check_module(model)
    make = _maker(norm)
    if start not in (None, "paper", "preserve"):
        raise ValueError(f'start must be "paper" or "preserve", got {start!r}')
    chosen = _chooser(where)
    _check_channels_known(model)
    if not inplace:
        model = copy.deepcopy(model)
    swapped: dict[nn.Module, Norm] = {}
    ruined = False
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if not isinstance(module, (_BatchNorm, Norm)) or not chosen(name):
            continue
        if module not in swapped:
            swapped[module] = _converted(module, make, options)
            preserved = start == "preserve" and swapped[module].preserve()
            if start != "paper" and not preserved:
                ruined = ruined or _ruined(module, swapped[module])
        if name:
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, swapped[module])
        else:
            model = cast(Model, swapped[module])
        if report is not None:
            new = swapped[module]
            report(f"{name or 'model'}: {_short(module)} -> {_short(new)}")
    if not swapped:
        _warn_nothing(model, where)
    if ruined:
        _warn_ruined(next(iter(swapped.values())).label)
    return model


def _check_module(model: object) -> None:
    if not isinstance(model, nn.Module):
        got = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"convert takes a torch module, got {got}; pass the model itself")


def _maker(norm: str | Callable[..., Norm]) -> Callable[..., Norm]:
    if not isinstance(norm, str):
        if isinstance(norm, nn.Module) or not callable(norm):
            raise TypeError(
                f"norm must be one of {', '.join(NORMS)}, or a class or function that makes a norm, got "
                f"{type(norm).__name__}; each layer gets a norm of its own"
            )
        return norm
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(NORMS)}, or a class of your own; got {norm!r}")
    return NORMS[norm]


def _chooser(where: str | Callable[[str], bool] | None) -> Callable[[str], bool]:
    if where is None:
        return lambda name: True
    if isinstance(where, str):
        pattern = where
        return lambda name: fnmatchcase(name, pattern)
    return where


def _check_channels_known(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and any(
            is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())
        ):
            raise ValueError(
                f"{name or 'model'} is a {type(module).__name__} that does not know its channels yet; run the model "
                "once on a batch, then convert it"
            )


def _converted(old: _BatchNorm | Norm, make: Callable[..., Norm], options: dict[str, Any]) -> Norm:
    settings: dict[str, Any] = {"eps": old.eps, "momentum": old.momentum, "affine": _affine(old)}
    if isinstance(old, Norm) and old.fixed:
        settings["running"] = "fixed"
    if isinstance(old, Norm) and old.unbiased:
        settings["unbiased"] = True
    settings |= options
    new = make(old.num_features, **settings)
    like = next((tensor for tensor in (*old.parameters(), *old.buffers()) if tensor.is_floating_point()), None)
    if like is not None:
        new.to(device=like.device, dtype=like.dtype)
    _carry(old, new)
    return new.train(old.training)


def _affine(old: _BatchNorm | Norm) -> bool | str:
    return old.affine if isinstance(old, Norm) else old.weight is not None


@torch.no_grad()
def _carry(old: _BatchNorm | Norm, new: Norm) -> None:
    """Move what was trained from one norm to the other."""
    names = ["weight", "bias"]
    if isinstance(old, TaskNorm) and isinstance(new, TaskNorm) and old.alpha_form == new.alpha_form:
        names += ["alpha_scale", "alpha_offset"]
    for name in names:
        if getattr(old, name) is not None and getattr(new, name) is not None:
            setattr(new, name, getattr(old, name))  # the same parameter: an optimizer may hold it
    for name in RUNNING:
        value: Tensor | None = getattr(old, name)
        if value is not None:
            getattr(new, name).copy_(value)


def _ruined(old: _BatchNorm | Norm, new: Norm) -> bool:
    """Whether torch's own batch norm was trained, and what takes its place does not use its running moments.

    Our own norms are converted knowingly: weights that were trained with CBN are tested as TBN and RN.
    """
    return isinstance(old, _BatchNorm) and new.has_running and not new.by_running


def _short(module: _BatchNorm | Norm) -> str:
    return f"{type(module).__name__}({module.num_features})"


def _warn_nothing(model: nn.Module, where: str | Callable[[str], bool] | None) -> None:
    among = "" if where is None else f" among the modules that where={where!r} selects"
    warnings.warn(
        f"nothing to convert in {type(model).__name__}{among}: looked for BatchNorm1d, BatchNorm2d, BatchNorm3d, "
        "SyncBatchNorm and the norms of tasknorm; the model is unchanged",
        UserWarning,
        stacklevel=3,
    )


def _warn_ruined(label: str) -> None:
    warnings.warn(
        f"{label} does not start with the running moments that this network was trained with, so train it before use; "
        'convert(model, "TaskNorm-r", start="preserve", running="fixed") keeps what it can do (start="paper" silences '
        "this warning)",
        UserWarning,
        stacklevel=3,
    )
