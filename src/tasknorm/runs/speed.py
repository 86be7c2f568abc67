"""How fast a run is, as far as its folder tells."""

from __future__ import annotations

from typing import NamedTuple


class Speed(NamedTuple):
    """Seconds of a kind of run.

    Args:
        iteration: an iteration of training, or an epoch of pretraining.
        task: one validation task, under one norm.
        test: one test task of every test source and way, under one norm.
    """

    iteration: float
    task: float = 0.0
    test: float = 0.0
