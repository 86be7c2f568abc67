"""Means over independent seeds, with 95 % intervals by Student's t ("Student", 1908): few seeds need wide intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev

from tasknorm.evaluation.accuracy import Accuracy


def over_seeds(values: Sequence[float]) -> Accuracy:
    """The mean of one value per seed, and half the width of its 95 % interval.

    For a paired difference, pass the difference within each seed.

    Raises:
        ValueError: if there are fewer than two values.

    >>> print(over_seeds([0.90, 0.92, 0.91]))
    91.0 ± 2.5
    """
    if len(values) < 2:
        raise ValueError(f"an interval over seeds needs at least two, got {len(values)}; train with another seed")
    return Accuracy(fmean(values), _half_width(stdev(values), len(values)))


def seeds_needed(values: Sequence[float], most: int) -> int | None:
    """How many seeds would tell the mean from 0, if later seeds scatter as these do; None if more than `most`.

    >>> seeds_needed([0.02, -0.01, 0.02], 20), seeds_needed([0.01, -0.01], 20)
    (15, None)
    """
    mean, scatter = abs(fmean(values)), stdev(values)
    return next((n for n in range(len(values) + 1, most + 1) if mean > _half_width(scatter, n)), None)


def _half_width(deviation: float, seeds: int) -> float:
    return students_t(seeds - 1) * deviation / math.sqrt(seeds)


@cache
def students_t(freedom: int, inside: float = 0.95) -> float:
    """The number within which Student's t lies, by its absolute value, with probability `inside`.

    Args:
        freedom: the degrees of freedom, at least 1.
        inside: the probability, below 1.

    >>> round(students_t(2), 4), round(students_t(1), 4)
    (4.3027, 12.7062)
    """
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _probability(middle, freedom) < inside else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _probability(angle: float, freedom: int) -> float:
    """The probability that |t| < sqrt(freedom) tan(angle) (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    total, term = 0.0, cosine**odd
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
