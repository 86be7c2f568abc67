"""One episode as indices, and what many of them look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tasknorm.data.sampling.random_stream import Integers

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, eq=False)
class Draw:
    """One episode as indices. An example's label is the position of its class in `classes`.

    Args:
        source: position in a `Mixture`, else 0.
        classes: class ids, `(way,)`.
        context: for each class, the context's image numbers within that class, in random order.
        target: the same for the target set.
        rotations: quarter turns of each class, `(way,)`; zeros unless asked for.
    """

    source: int
    classes: Integers
    context: tuple[Integers, ...]
    target: tuple[Integers, ...]
    rotations: Integers

    @property
    def way(self) -> int:
        """The number of classes."""
        return len(self.classes)


class Sampler(Protocol):
    """Draws episode `index` of `seed`, the same one whenever it is asked."""

    def draw(self, seed: int, index: int) -> Draw: ...


def statistics(sampler: Sampler, episodes: int, seed: int = 0) -> dict[str, dict[str, Any]]:
    """What the first `episodes` episodes of `seed` look like.

    Returns:
        `way`, `context` and `target` (classes, context images and target images of an episode) and `shot`
        (context images of a class), each with `mean`, `std` (of the population) and `quantiles` (`"0.5"` is
        the median).

    Raises:
        ValueError: if no episode is asked for.
    """
    if episodes < 1:
        raise ValueError(f"statistics need at least one episode, got {episodes}; ask for more")
    draws = [_sizes(sampler.draw(seed, index)) for index in range(episodes)]
    return {
        "way": _summary([len(shots) for shots, _ in draws]),
        "context": _summary([sum(shots) for shots, _ in draws]),
        "shot": _summary([shot for shots, _ in draws for shot in shots]),
        "target": _summary([targets for _, targets in draws]),
    }


def _sizes(draw: Draw) -> tuple[list[int], int]:
    return [len(images) for images in draw.context], sum(len(images) for images in draw.target)


def _summary(values: list[int]) -> dict[str, Any]:
    quantiles = np.quantile(values, QUANTILES)
    return {
        "mean": float(np.mean(values)),
        "std": float(np.std(values)),
        "quantiles": {f"{level:g}": float(value) for level, value in zip(QUANTILES, quantiles, strict=True)},
    }
