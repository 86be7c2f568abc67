"""What a person sees of a comparison: a bar and the table as it grows, or a line for each round."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from tasknorm.compare.rounds import Plan
from tasknorm.durations import in_hours
from tasknorm.grid import GridRun
from tasknorm.report import Comparison

EVERY = 0.5  # seconds between looks at the runs' folders
TEST = 0.2  # of a training's time, what its test takes for each norm, until a round has told
UNTRAINED = 100  # iterations that a run without any counts as


class View:
    """Shows how far a comparison is, on standard error.

    Args:
        plan: the comparison's rounds.
        most: the largest number of rounds.
        minutes: the time that they may take, if there is a limit.
        complete: rounds that were complete before.
    """

    def __init__(self, plan: Plan, most: int, minutes: float | None, complete: int = 0) -> None:
        self._plan, self._most, self._minutes = plan, most, minutes
        self._console = Console(stderr=True)
        self._bar = Progress(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), auto_refresh=False)
        self._task = self._bar.add_task("starting", total=1.0)
        self._live = Live(self._bar, console=self._console, transient=True, refresh_per_second=4)
        self._began = time.monotonic()
        self._runs: list[list[GridRun]] = []  # of each round that has begun
        self._next, self._told = 0.0, complete
        self._first: float | None = None  # work that was done before

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def update(self, begun: int, complete: int, found: Sequence[Comparison]) -> None:
        """Show how far the rounds are.

        Args:
            begun: rounds that have begun or are complete.
            complete: rounds that are complete.
            found: what these say.
        """
        now, news = time.monotonic(), complete > self._told
        self._told = complete
        if not self._console.is_terminal:
            for one in found if news else ():
                self._console.print(self._line(one, complete), soft_wrap=True, highlight=False, markup=False)
            return
        if now < self._next and not news:
            return
        self._next = now + EVERY
        done, total = self._work(begun, complete)
        if self._first is None:
            self._first = done
        share, left = self._whole(done, total, now - self._began)
        time_left = "estimating the time" if left is None else f"{in_hours(left)} left"
        words = f"{self._round} {min(complete + 1, begun)}{self._of}, {time_left}"
        self._bar.update(self._task, completed=min(share, 0.99), description=words)
        self._live.update(Group(*(one.text() for one in found), self._bar), refresh=news)

    def _whole(self, done: float, total: float, elapsed: float) -> tuple[float, float | None]:
        """The share of everything that is done, and the seconds left if they can be told.

        A budget is used up by further rounds: what it leaves is at least the time until its end.
        """
        here = done - (self._first or 0.0)
        left = elapsed * (total - done) / here if here > 0.02 * total else None
        if self._minutes is None or left is None:
            return done / total, left
        left = max(left, 60 * self._minutes - elapsed)
        return elapsed / (elapsed + left), left

    def _line(self, found: Comparison, complete: int) -> str:
        order = sorted(found.norms, key=lambda norm: -found.accuracy(norm, "all").mean)
        scores = ", ".join(f"{norm} {found.accuracy(norm, 'all').percent:.1f}" for norm in order)
        elapsed = in_hours(time.monotonic() - self._began)
        return f"{self._round} {complete}{self._of} done after {elapsed}: {found.title}, accuracy in %: {scores}"

    @property
    def _round(self) -> str:
        return "fold" if self._plan.folds else "seed"

    @property
    def _of(self) -> str:
        return f" of {self._most}" if self._minutes is None else f" of as many as fit into {self._minutes:g} minutes"

    def _work(self, begun: int, complete: int) -> tuple[float, float]:
        """Work done, and all work of the rounds that are known to come, in iterations."""
        self._runs += [self._plan.runs(number) for number in range(len(self._runs), begun)]
        done = total = 0.0
        for number, runs in enumerate(self._runs):
            for run in runs:
                norms = len(getattr(run.settings, "tested_norms", ()))
                length = run.settings.length or UNTRAINED
                whole = length * (1 + TEST * norms)
                total += whole
                here = run.at(self._plan.folder)
                done += whole if number < complete or here.finished() else min(here.done(), length)
        coming = self._most - begun if self._minutes is None else 0
        return done, total * (1 + coming / max(1, begun))
