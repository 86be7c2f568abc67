"""How fast a training converges: the mean of its curve over the iterations that all trainings compared share.

The paper judges by eye. Of two curves over the same iterations, that with the higher mean accuracy got there faster.
The loss has no upper bound: its mean says most about the first few iterations.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tasknorm.results import Record


def mean_training_accuracies(runs: Iterable[Record]) -> dict[str, float]:
    """Mean training accuracy in percent over the iterations that all runs share, by trained norm."""
    return _shared_means(
        {
            r.settings.trained_norm: _in_percent(r.result["curve"]["iteration"], r.result["curve"]["accuracy"])
            for r in runs
        }
    )


def mean_validation_accuracies(runs: Iterable[Record]) -> dict[str, float]:
    """Mean validation accuracy in percent over the iterations that all runs share, by norm."""
    found = {}
    for validation in (run.result["validation"] for run in runs):
        for norm, values in validation["accuracy"].items():
            found[norm] = _in_percent(validation["iteration"], values)
    return _shared_means(found)


Curve = tuple[list[float], list[float]]


def _in_percent(iterations: list[float], accuracies: list[float]) -> Curve:
    return iterations, [100 * accuracy for accuracy in accuracies]


def _shared_means(curves: dict[str, Curve]) -> dict[str, float]:
    there = {name: curve for name, curve in curves.items() if curve[0]}
    if not there:
        return {}
    first, last = max(x[0] for x, _ in there.values()), min(x[-1] for x, _ in there.values())
    grid = np.linspace(first, last, 201)
    return {name: float(np.interp(grid, x, y).mean()) for name, (x, y) in there.items()}
