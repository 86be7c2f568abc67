"""Which pixels feed the numbers that normalise a pixel: measured on the norms themselves.

A norm does `y = s (x - mu)` to the plane of one image and channel. From two pixels of the plane follow s and mu; their
gradients with respect to the whole batch say which pixels had a part in them. The weight of a plane is by how much mu
moves if all pixels of that plane move by 1, and the weight of running moments by how much it moves with them.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

import tasknorm
from tasknorm import NORMS, Norm

CONTEXT, TARGETS, CHANNELS, SIDE = 3, 3, 4, 3
IMAGES = CONTEXT + TARGETS
OPTIONS: dict[str, dict[str, Any]] = {"GN": {"num_groups": 2}}
Mode = Literal["test", "train"]
MODES: tuple[Mode, ...] = ("test", "train")
Role = Literal["itself", "group", "layer", "context", "targets"]


def batch() -> Tensor:
    """Three context images and three targets, `(6, 4, 3, 3)`."""
    random = torch.Generator().manual_seed(0)
    return torch.randn(IMAGES, CHANNELS, SIDE, SIDE, generator=random, dtype=torch.float64)


def norm_of(label: str, mode: Mode, running: Tensor) -> Norm:
    """A norm as it is after some training, with these running means."""
    norm = NORMS[label](CHANNELS, affine=False, dtype=torch.float64, **OPTIONS.get(label, {}))
    norm.running_mean.copy_(running)
    norm.running_var.fill_(2)
    norm.num_batches_tracked.fill_(1)
    return norm.train(mode == "train")


def scale_and_mean(label: str, mode: Mode, x: Tensor, running: Tensor) -> tuple[Tensor, Tensor]:
    """s and mu of each image and channel, `(6, 4)` each, from what comes out of the norm."""
    norm = norm_of(label, mode, running)
    with tasknorm.joint(norm, context_size=CONTEXT):
        y = norm(x)
    first, last = (0, 0), (SIDE - 1, SIDE - 1)
    scale = (y[..., *first] - y[..., *last]) / (x[..., *first] - x[..., *last])
    return scale, x[..., *first] - y[..., *first] / scale


def feeds(label: str, mode: Mode) -> Tensor:
    """Whether a pixel has a part in the moments of another's plane, `(6, 4) + (6, 4, 3, 3)`, boolean."""
    x = batch().requires_grad_()
    scale, mean = scale_and_mean(label, mode, x, torch.zeros(CHANNELS))
    parts = torch.zeros(IMAGES, CHANNELS, *x.shape, dtype=torch.bool)
    for image in range(IMAGES):
        for channel in range(CHANNELS):
            for table in (scale, mean):
                if table.requires_grad:
                    (gradient,) = torch.autograd.grad(table[image, channel], x, retain_graph=True)
                    parts[image, channel] |= gradient.abs() > 1e-9
    return parts


def weights(label: str, mode: Mode) -> Tensor:
    """The weight of each plane in each plane's mean, `(6, 4) + (6, 4)`."""
    x = batch().requires_grad_()
    _, mean = scale_and_mean(label, mode, x, torch.zeros(CHANNELS))
    found = torch.zeros(IMAGES, CHANNELS, IMAGES, CHANNELS, dtype=torch.float64)
    for image in range(IMAGES):
        for channel in range(CHANNELS):
            (gradient,) = torch.autograd.grad(mean[image, channel], x, retain_graph=True)
            found[image, channel] = gradient.sum((-1, -2))
    return found


def running_weights(label: str, mode: Mode) -> Tensor:
    """The weight of the running mean of a channel in each of its planes' means, `(6, 4)`."""
    means = [scale_and_mean(label, mode, batch(), torch.full((CHANNELS,), float(at)))[1] for at in (0, 1)]
    return means[1] - means[0]


def role(image: int, channel: int, other: int, of: int) -> Role | None:
    """What the plane (other, of) is to the plane (image, channel); None if it is of another image and channel."""
    if other == image:
        return "itself" if of == channel else "group" if of // 2 == channel // 2 else "layer"
    if of != channel:
        return None
    return "context" if other < CONTEXT else "targets"


def table() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Weights by norm, mode, set of the image that is normalised, and role of each plane that has a part."""
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for label in NORMS:
        for mode in MODES:
            planes, running = weights(label, mode), running_weights(label, mode)
            for kind, image in (("context", 0), ("target", CONTEXT)):
                roles = {}
                for other in range(IMAGES):
                    for of in range(CHANNELS):
                        name, weight = role(image, 0, other, of), round(planes[image, 0, other, of].item(), 4)
                        if weight and name is not None:
                            roles[str(name)] = weight
                if share := round(running[image, 0].item(), 4):
                    roles["running"] = share
                found.setdefault(label, {}).setdefault(mode, {})[kind] = roles
    return found
