"""Which weights are the best of a training: chosen by validation, as CNAPs' authors do on several sources."""

from __future__ import annotations

Accuracies = dict[str, float]  # of a validation, by source


def is_better(accuracies: Accuracies, best: Accuracies) -> bool:
    """CNAPs' rule for the best weights: a higher accuracy on at least half of the sources, even if others fall.

    >>> is_better({"a": 0.5, "b": 0.2, "c": 0.9}, {"a": 0.4, "b": 0.3, "c": 0.8})
    True
    """
    higher = sum(accuracy > best.get(source, -1.0) for source, accuracy in accuracies.items())
    return 2 * higher >= len(accuracies)
