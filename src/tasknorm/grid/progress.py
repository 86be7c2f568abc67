"""What a person sees of a grid: how many iterations of all runs are done, and the time left."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tasknorm.grid.estimates import seconds_left
from tasknorm.grid.grid_run import GridRun
from tasknorm.progress import Progress

LOOK, ESTIMATE = 2.0, 60.0  # seconds between looks at the runs' folders, and between estimates


class GridProgress:
    """Shows how far the runs are, and the time left.

    Args:
        runs: all runs of the grid.
        folder: the grid's folder.
        processes: runs at a time.
    """

    def __init__(self, runs: Sequence[GridRun], folder: Path, processes: int) -> None:
        self._runs, self._folder, self._processes = runs, folder, processes
        self._progress = Progress("runs", sum(run.settings.length for run in runs), "iterations")
        self._next, self._next_estimate = time.monotonic() + LOOK, 0.0
        self._left: float | None = None

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._progress.__exit__(*error)

    def update(self, ended: Mapping[str, str | None]) -> None:
        """Look at the runs' folders, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOK
        if now >= self._next_estimate:  # reads more than a line of each run
            self._left = seconds_left(self._runs, self._folder, self._processes)
            self._next_estimate = now + ESTIMATE
        done = sum(run.at(self._folder).done() for run in self._runs)
        finished = sum(run.at(self._folder).finished() for run in self._runs)
        self._progress.update(done, f"{finished} of {len(self._runs)} finished", self._left)
