"""What a person sees of a grid: a bar over all iterations of all runs, or a line a minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from tasknorm.durations import in_hours
from tasknorm.grid.estimates import seconds_left
from tasknorm.grid.grid_run import GridRun


class GridProgress:
    """Shows how far the runs are, and the time left.

    Args:
        runs: all runs of the grid.
        folder: the grid's folder.
        processes: runs at a time.
        say: takes the line of each minute, where standard error is no terminal.
    """

    def __init__(self, runs: Sequence[GridRun], folder: Path, processes: int, say: Callable[[str], object]) -> None:
        self._runs, self._folder, self._processes, self._say = runs, folder, processes, say
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("runs", total=sum(run.settings.length for run in runs))
        self._every = 2.0 if self._console.is_terminal else 60.0
        self._next = time.monotonic() + self._every
        self._next_estimate, self._left = 0.0, "?"

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def update(self) -> None:
        """Look at the runs' folders, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        if now >= self._next_estimate:  # reads more than a line of each run
            left = seconds_left(self._runs, self._folder, self._processes)
            self._left = "?" if left is None else in_hours(left)
            self._next_estimate = now + 60.0
        done = sum(run.at(self._folder).done() for run in self._runs)
        finished = sum(run.at(self._folder).finished() for run in self._runs)
        words = f"{finished} of {len(self._runs)} runs finished, {self._left} left"
        self._bar.update(self._task, completed=done, description=words)
        if not self._console.is_terminal:
            total = sum(run.settings.length for run in self._runs)
            self._say(f"{words}, {done} of {total} iterations")
