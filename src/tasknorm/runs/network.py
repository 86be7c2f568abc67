"""The network of a run, from its settings: ours or of others, its weights, its norms and where they start."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from tasknorm.conversion import convert
from tasknorm.errors import SettingsError
from tasknorm.learners import Learner
from tasknorm.nets import NETS, Backbone, backbone, is_backbone, load_backbone, with_film
from tasknorm.norms import NORMS, Norm
from tasknorm.settings import Settings
from tasknorm.training import load_pretrained

NORM_LAYERS = (Norm, _NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)  # whose gamma and beta are small


def network_of(settings: Settings, channels: int, *, pretrained: bool = True) -> nn.Module:
    """The run's net as its training begins.

    Args:
        settings: the run's settings.
        channels: of the images.
        pretrained: read pretrained weights from their file, if there is one; False where others will take their place.

    Raises:
        SettingsError: if there is no such network, or it does not suit the images or the learner.
        WeightsError: if the file is damaged or of another network.
    """
    shape = (channels, settings.image_size, settings.image_size)
    file = Path(settings.pretrained) if settings.pretrained is not None and pretrained else None
    net = _of_others(settings, shape, file) if is_backbone(settings.net) else _ours(settings, shape, file)
    for norm in net.modules() if settings.norm_start == "preserve" else ():
        if isinstance(norm, Norm):
            norm.preserve()
    return net


def _ours(settings: Settings, shape: tuple[int, int, int], file: Path | None) -> nn.Module:
    options: dict[str, Any] = {"image_shape": shape}
    options |= {"filters": settings.filters} if settings.filters else {}
    options |= settings.kind.net_options(settings)
    try:
        net = NETS[settings.net](partial(norm_maker(settings), running=settings.running), **options)
    except ValueError as error:
        raise SettingsError(f"net={settings.net} contradicts image_size={settings.image_size}: {error}") from None
    if file is not None:
        load_pretrained(net, file)
    return net


def _of_others(settings: Settings, shape: tuple[int, int, int], file: Path | None) -> Backbone:
    """With their own eps, momentum and affine parameters; updates of running moments count from 0."""
    net = backbone(settings.net, shape)
    if file is not None:
        load_backbone(net, file)
    if any(isinstance(module, (_BatchNorm, Norm)) for module in net.modules()):
        options = _options(settings) | {"running": settings.running}
        convert(net, settings.trained_norm, start="paper", inplace=True, **options)
    for norm in net.modules():
        if isinstance(norm, Norm):
            norm.num_batches_tracked.zero_()  # BRN's schedule goes by it
    if settings.kind.net_options(settings).get("film"):
        try:
            with_film(net)
        except ValueError as error:
            raise SettingsError(f"net={settings.net} contradicts learner={settings.learner}: {error}") from None
    return net


def norm_maker(settings: Settings) -> Callable[..., nn.Module]:
    """Makes the norms that meta-training uses, for networks without pretrained moments."""
    options: dict[str, Any] = {
        "eps": settings.eps,
        "momentum": settings.momentum,
        "affine": {"all": True, "none": False}.get(settings.affine, "offset"),
    }
    return partial(NORMS[settings.trained_norm], **options | _options(settings))


def _options(settings: Settings) -> dict[str, Any]:
    """The options that are not always given: those of some norms alone, and unbiased variances."""
    said = {"alpha": settings.alpha, "schedule": settings.schedule, "unbiased": settings.unbiased or None}
    return {name: value for name, value in said.items() if value is not None}


def freeze_large(learner: Learner) -> None:
    """Leave only what is small to be trained: norms' own parameters, and all that is beside the net.

    Raises:
        SettingsError: if nothing is left.
    """
    small = {
        parameter
        for module in learner.modules()
        if isinstance(module, NORM_LAYERS) or type(module).__name__.endswith("Norm")
        for parameter in module.parameters(recurse=False)
    }
    for parameter in learner.target_net.parameters():
        if parameter not in small:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in learner.parameters()):
        raise SettingsError(
            f"tuned=small: {type(learner.target_net).__name__} has no norm whose gamma and beta could be trained, and "
            f"{learner.label} has nothing else; set tuned=all, or use another network"
        )


def tell_unconverted(learner: Learner, settings: Settings) -> None:
    """Say so if a network has no batch norm, so that the run's norm changes nothing in it."""
    if not is_backbone(settings.net) or any(isinstance(module, Norm) for module in learner.target_net.modules()):
        return
    trained = "only its own norms' gamma and beta are tuned" if settings.tuned == "small" else "it is trained as it is"
    print(
        f"net={settings.net} has no batch norm to convert: norm={settings.norm} changes nothing in it, and {trained}",
        file=sys.stderr,
    )
