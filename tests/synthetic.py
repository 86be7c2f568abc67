"""Small image tasks to learn in seconds: each class is a random pattern, each image a shifted, noisy copy."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from tasknorm import Episode

SIDE = 28


def episode(seed: int, way: int = 5, shot: int = 1, targets: int = 3, noise: float = 0.3) -> Episode:
    """A task of `way` new classes, with `shot` context and `targets` target images of each, `(n, 1, 28, 28)`."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(way, 1, 5, 5, generator=generator)
    patterns = (F.interpolate(coarse, SIDE, mode="bilinear") > 0.5).float()
    labels = torch.arange(way)
    sets: list[Tensor] = []
    for count in (shot, targets):
        y = labels.repeat(count)
        shifts = torch.randint(-1, 2, (len(y), 2), generator=generator).tolist()
        images = torch.stack([patterns[label].roll(shift, (1, 2)) for label, shift in zip(y, shifts, strict=True)])
        sets += [images + noise * torch.randn(images.shape, generator=generator), y]
    return Episode(*sets)


def episodes(seed: int, tasks: int, **options: int) -> list[Episode]:
    """Several such tasks."""
    return [episode(1000 * seed + task, **options) for task in range(tasks)]
