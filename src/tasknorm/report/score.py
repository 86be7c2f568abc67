"""An accuracy with its 95 % interval, and when two of them differ."""

from __future__ import annotations

import math
from typing import NamedTuple


class Score(NamedTuple):
    """A mean accuracy and the half-width of its 95 % confidence interval, both in percent."""

    mean: float
    interval: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.interval:.1f}"


def joint_interval(a: Score, b: Score) -> float:
    """Half-width of the 95 % interval of a - b, if the two were measured on different tasks."""
    return math.hypot(a.interval, b.interval)


def differ(a: Score, b: Score) -> bool:
    """Whether the difference is significant at 95 %: `|a - b| > sqrt(ci_a^2 + ci_b^2)`; equality is a tie.

    >>> differ(Score(90.0, 0.3), Score(89.5, 0.4))
    False
    >>> differ(Score(90.0, 0.3), Score(89.4, 0.4))
    True
    """
    return abs(a.mean - b.mean) > joint_interval(a, b) + 1e-9  # decimal numbers are not exact
