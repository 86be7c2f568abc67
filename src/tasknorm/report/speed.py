"""How fast a training converges: its mean training accuracy over the iterations that all compared trainings share.

The paper judges by eye. Of two curves over the same iterations, the one with the higher mean accuracy rises faster. The
loss is unsuitable: it has no upper bound, so its mean depends mostly on the first few iterations.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tasknorm.runs import Record


def mean_training_accuracies(runs: Iterable[Record]) -> dict[str, float]:
    """Mean training accuracy in percent over the iterations that all runs share, by trained norm."""
    curves = {r.settings.trained_norm: r.result["curve"] for r in runs}
    there = {norm: (curve["iteration"], curve["accuracy"]) for norm, curve in curves.items() if curve["iteration"]}
    if not there:
        return {}
    first, last = max(x[0] for x, _ in there.values()), min(x[-1] for x, _ in there.values())
    grid = np.linspace(first, last, 201)
    return {norm: 100 * float(np.interp(grid, x, y).mean()) for norm, (x, y) in there.items()}
