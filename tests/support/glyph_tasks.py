"""Small tasks to learn in seconds: characters of many scripts."""

from __future__ import annotations

from functools import cache

from tasknorm import Episode
from tasknorm.data import Cached, Episodes, FixedSampler, opened, scaled


def episode(seed: int, way: int = 5, shot: int = 1, targets: int = 3, split: str = "train") -> Episode:
    """A task of `way` new classes, with `shot` context and `targets` target images of each, `(n, 1, 28, 28)`."""
    return scaled(_tasks(way, shot, targets, split)[seed])


def episodes(seed: int, tasks: int, **options: int | str) -> list[Episode]:
    """Several such tasks."""
    return [episode(1000 * seed + task, **options) for task in range(tasks)]  # type: ignore[arg-type]


@cache
def _tasks(way: int, shot: int, targets: int, split: str) -> Episodes:
    glyphs = Cached(opened("glyphs"), size=28)
    return Episodes(glyphs, FixedSampler(glyphs.spec.splits[split], way, shot, targets))
