"""An accuracy with its 95 % interval, from the evaluation to the page, and when two of them differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Accuracy:
    """A mean accuracy over tasks and half the width of its 95 % interval, both shares from 0 to 1.

    Printed, it is in percent:

    >>> print(Accuracy(0.944, 0.008), "%")
    94.4 ± 0.8 %
    """

    mean: float
    interval: float

    @classmethod
    def over(cls, tasks: Tensor) -> Accuracy:
        """The mean of accuracies on tasks, `(tasks,)`, and 1.96 population deviations of that mean.

        >>> import torch
        >>> print(Accuracy.over(torch.tensor([0.0, 1.0, 1.0, 0.0])))
        50.0 ± 49.0
        """
        interval = 1.96 * tasks.std(correction=0) / math.sqrt(len(tasks))
        return cls(float(tasks.mean()), float(interval))

    @property
    def percent(self) -> float:
        """The mean in percent."""
        return 100 * self.mean

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * self.interval:.1f}"

    @property
    def points(self) -> str:
        """A difference of accuracies, in percentage points with its sign; what rounds to 0 has a plus.

        >>> Accuracy(-0.012, 0.004).points
        '-1.2 ± 0.4'
        """
        return f"{100 * self.mean:+z.1f} ± {100 * self.interval:.1f}"


def joint_interval(a: Accuracy, b: Accuracy) -> float:
    """Half the width of the 95 % interval of a - b, if the two were measured on different tasks."""
    return math.hypot(a.interval, b.interval)


def differ(a: Accuracy, b: Accuracy) -> bool:
    """Whether the difference is significant at 95 %: `|a - b| > sqrt(ci_a^2 + ci_b^2)`; equality is a tie.

    >>> differ(Accuracy(0.900, 0.003), Accuracy(0.895, 0.004))
    False
    >>> differ(Accuracy(0.900, 0.003), Accuracy(0.894, 0.004))
    True
    """
    return abs(a.mean - b.mean) > joint_interval(a, b) + 1e-11  # decimal numbers are not exact
