"""The parts of a run, from its settings: learner, norms and tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tasknorm.convert import convert
from tasknorm.data import Cached, Episodes, FixedSampler, Spec, VariableSampler, opened, scaled
from tasknorm.data.draw import Sampler
from tasknorm.data.source import chosen_split
from tasknorm.episode import Episode
from tasknorm.learners import LEARNERS
from tasknorm.nets import NETS
from tasknorm.norms import BRN, NORMS
from tasknorm.pretrain import SCALES, load_pretrained
from tasknorm.recompute import recompute
from tasknorm.settings import ONLY, Settings


def learner_of(settings: Settings) -> nn.Module:
    """A learner with the run's initial weights."""
    torch.manual_seed(settings.seed)
    channels = opened(settings.source).channels
    options: dict[str, Any] = {"image_shape": (channels, settings.image_size, settings.image_size)}
    options |= {"filters": settings.filters} if settings.filters else {}
    options |= {"way": settings.way} if settings.learner == "maml" else {}
    options |= {"film": True} if settings.film else {}
    norm = norm_maker(settings)
    net = NETS[settings.net](norm, **options)
    if settings.pretrained is not None:
        load_pretrained(net, Path(settings.pretrained))
    if settings.recompute:
        recompute(net)
    chosen = {name: getattr(settings, name) for name in ONLY[settings.learner] if getattr(settings, name) is not None}
    if settings.learner == "maml":
        return LEARNERS["maml"](net, compiled=settings.compile, **chosen)
    if settings.compile:
        net.compile()
    return (
        LEARNERS["cnaps"](net, norm, **chosen) if settings.learner == "cnaps" else LEARNERS["protonets"](net, **chosen)
    )


def norm_maker(settings: Settings) -> Callable[[int], nn.Module]:
    """Makes the norms that meta-training uses."""
    kind = NORMS[settings.trained_norm]
    options: dict[str, Any] = {
        "eps": settings.eps,
        "affine": {"all": True, "none": False}.get(settings.affine, "offset"),
    }
    if settings.alpha is not None:
        options |= {"alpha": settings.alpha}
    if issubclass(kind, BRN):
        options |= {"schedule": min(40_000, 2 * settings.iterations)}  # two updates for each iteration

    def norm(channels: int) -> nn.Module:
        made = kind(channels, **options)
        made.momentum = settings.momentum
        return made

    return norm


def task_of(settings: Settings, split: str, seed: int | None = None) -> Callable[[int], Episode]:
    """Task number i of a split, scaled for the net."""
    images = Cached(opened(settings.source), settings.image_size)
    episodes = Episodes(images, sampler_of(settings, images.spec, split), settings.seed if seed is None else seed)
    return lambda number: scaled(episodes[number], SCALES[settings.scale])


def sampler_of(settings: Settings, spec: Spec, split: str) -> Sampler:
    """Which images make a task; in meta-training, tasks may have other ways and targets than in testing."""
    part = chosen_split(spec, split)
    if settings.sampling == "variable":
        return VariableSampler(part) if split == "train" else VariableSampler(part, max_way=50, max_context=500)
    way, targets = settings.way, settings.targets
    if split == "train":
        way, targets = settings.train_way, settings.train_targets
    return FixedSampler(part, way, settings.shot, targets, settings.rotate)


def as_norm(learner: nn.Module, norm: str, settings: Settings) -> nn.Module:
    """The learner with its weights under a norm that shares its training; itself if the norm is its own."""
    if norm == settings.trained_norm:
        return learner
    return convert(learner, norm, where="extractor.*" if settings.learner == "cnaps" else None)
