"""Probabilities that mean what they say: one temperature (Guo et al., 2017), and a threshold for "none of these"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor
from torch.nn import functional as F

COLDEST, HOTTEST = 1e-3, 1e3  # temperatures
REJECTED = 0.05  # share of known images whose answer is "none of these"


class Calibration(BaseModel):
    """How logits become probabilities, and when the answer is "none of these".

    Args:
        temperature: logits are divided by it before the softmax.
        threshold: the answer is "none of these" if the largest probability is smaller; None for never. It is for tasks
            of this way; see `threshold_for`.
        tasks: number of tasks on which they were chosen; 0 if nothing was calibrated.
        way, shot: those of the tasks; None if they vary.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    temperature: float = Field(default=1.0, ge=COLDEST, le=HOTTEST)
    threshold: float | None = Field(default=None, ge=0, le=1)
    tasks: int = Field(default=0, ge=0)
    way: int | None = Field(default=None, ge=2)
    shot: int | None = Field(default=None, ge=1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probabilities `(..., way)` for logits `(..., way)`, in float64."""
        return (logits.double() / self.temperature).softmax(-1)

    def threshold_for(self, way: int) -> float | None:
        """The threshold for tasks of any way: its odds fall with the square root of the number of other classes.

        The more classes, the smaller is the largest probability: the threshold of 5-way tasks would reject a quarter of
        the known images of 20-way tasks. The square root is what trained learners showed, nearly.

        >>> calibration = Calibration(threshold=0.5, way=5)
        >>> [round(calibration.threshold_for(way), 3) for way in (5, 2, 17)]
        [0.5, 0.667, 0.333]
        """
        if self.threshold is None or self.way is None or self.way == way:
            return self.threshold
        above, below = self.threshold * math.sqrt(self.way - 1), (1 - self.threshold) * math.sqrt(way - 1)
        return above / (above + below)

    @classmethod
    def on(cls, logits: Sequence[Tensor], labels: Sequence[Tensor], rejected: float = REJECTED) -> Self:
        """The calibration that suits some tasks, whose targets count alike.

        The temperature has the smallest negative log-likelihood, with Laplace's smoothing of the labels: as if each
        class had been the right one once more. Without it, tasks without a mistake would make every answer certain.
        The threshold rejects this share of the targets.

        Args:
            logits: of each task's targets, `(targets, way)`.
            labels: of each task's targets, `(targets,)`.
            rejected: share of targets below the threshold.
        """
        made = cls(temperature=best_temperature([scores.double() for scores in logits], labels), tasks=len(logits))
        largest = torch.cat([made.probabilities(scores).amax(-1) for scores in logits]).sort().values
        return made.model_copy(update={"threshold": float(largest[int(rejected * len(largest))])})


def best_temperature(logits: Sequence[Tensor], labels: Sequence[Tensor]) -> float:
    """The temperature of `Calibration.on`.

    It is found by bisection on the derivative with respect to 1 / temperature, in which the likelihood is convex.
    """
    low, high = -math.log(HOTTEST), -math.log(COLDEST)
    count = sum(len(truth) for truth in labels)
    for _ in range(60):
        middle = (low + high) / 2
        slope = sum(_slope(*task, math.exp(middle), count) for task in zip(logits, labels, strict=True))
        low, high = (low, middle) if slope > 0 else (middle, high)
    return min(HOTTEST, max(COLDEST, math.exp(-(low + high) / 2)))


def _slope(logits: Tensor, labels: Tensor, coldness: float, count: int) -> float:
    """A task's part of the derivative of the negative log-likelihood with respect to 1 / temperature."""
    way = logits.shape[1]
    expected = ((coldness * logits).softmax(-1) * logits).sum(-1)
    right = logits.gather(-1, labels[:, None])[:, 0]
    smoothed = (count * right + way * logits.mean(-1)) / (count + way)
    return float((expected - smoothed).sum())


def negative_log_likelihood(probabilities: Tensor, labels: Tensor) -> float:
    """Mean over targets, for probabilities `(targets, way)`."""
    return float(F.nll_loss(probabilities.clamp(min=1e-300).log(), labels))


def calibration_error(probabilities: Tensor, labels: Tensor, bins: int = 15) -> float:
    """Expected calibration error: how far accuracy is from the largest probability, in bins of equal width."""
    confidence, chosen = probabilities.max(-1)
    right = (chosen == labels).double()
    bin_of = (confidence * bins).long().clamp(max=bins - 1)
    gaps = [(right - confidence)[bin_of == number].sum().abs() for number in bin_of.unique()]
    return float(sum(gaps)) / len(labels)
