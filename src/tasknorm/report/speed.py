"""How fast a training converges: the mean of its curve over the iterations that all trainings compared share.

The paper judges by eye. Of two curves over the same iterations, that with the lower mean loss, or the higher mean
accuracy, got there faster.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tasknorm.results import Record


def mean_losses(runs: Iterable[Record]) -> dict[str, float]:
    """Mean training loss over the iterations that all runs share, by trained norm: the lower, the faster."""
    return _shared_means(
        {r.settings.trained_norm: (r.result["curve"]["iteration"], r.result["curve"]["loss"]) for r in runs}
    )


def mean_accuracies(runs: Iterable[Record]) -> dict[str, float]:
    """Mean validation accuracy in percent over the iterations that all runs share, by norm: the higher, the faster."""
    found = {}
    for validation in (run.result["validation"] for run in runs):
        for norm, values in validation["accuracy"].items():
            found[norm] = (validation["iteration"], [100 * value for value in values])
    return _shared_means(found)


def _shared_means(curves: dict[str, tuple[list[float], list[float]]]) -> dict[str, float]:
    there = {name: curve for name, curve in curves.items() if curve[0]}
    if not there:
        return {}
    first, last = max(x[0] for x, _ in there.values()), min(x[-1] for x, _ in there.values())
    grid = np.linspace(first, last, 201)
    return {name: float(np.interp(grid, x, y).mean()) for name, (x, y) in there.items()}
