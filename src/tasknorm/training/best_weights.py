"""Which weights are the best of a training: chosen by validation, as CNAPs' authors do on several sources."""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

from torch import Tensor

Accuracies = dict[str, float]  # of a validation, by source


class Candidate(NamedTuple):
    """Weights that compete with those of a training.

    Args:
        accuracies: on the validation tasks.
        weights: as a file holds them.
        about: what the file says about them (see `label`).
    """

    accuracies: Accuracies
    weights: dict[str, Tensor]
    about: dict[str, str]


def is_better(accuracies: Accuracies, best: Accuracies) -> bool:
    """CNAPs' rule for the best weights: a higher accuracy on at least half of the sources, even if others fall.

    >>> is_better({"a": 0.5, "b": 0.2, "c": 0.9}, {"a": 0.4, "b": 0.3, "c": 0.8})
    True
    """
    higher = sum(accuracy > best.get(source, -1.0) for source, accuracy in accuracies.items())
    return 2 * higher >= len(accuracies)


def is_better_on_average(accuracies: Accuracies, best: Accuracies) -> bool:
    """A higher mean over the sources: what is chosen by it is never worse than any other candidate there.

    >>> is_better_on_average({"a": 0.5, "b": 0.2}, {"a": 0.4, "b": 0.4})
    False
    """
    return fmean(accuracies.values()) > (fmean(best.values()) if best else -1.0)
