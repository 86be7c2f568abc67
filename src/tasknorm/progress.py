"""How far a command is, on standard error: a bar with the time left in a terminal, elsewhere a line a minute."""

from __future__ import annotations

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from tasknorm.durations import in_hours

EVERY = 60.0  # seconds between lines, where there is no terminal


class Progress:
    """Shows how much of some work is done; the whole only when the block ends.

    Args:
        what: what is being done.
        total: the amount of work.
        unit: what is counted, in the plural.
        done: work that was done before.
        quiet: show nothing.
    """

    def __init__(self, what: str, total: int, unit: str, *, done: int = 0, quiet: bool = False) -> None:
        self.what, self.total, self.unit, self.done = what, total, unit, done
        self.console = Console(stderr=True)
        self.quiet = quiet
        columns = (
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit)),
            TextColumn("{task.fields[left]}"),
        )
        hidden = quiet or not self.console.is_terminal
        self._bar = Bar(*columns, console=self.console, disable=hidden, transient=True)
        self._task = self._bar.add_task(what, total=total, completed=min(done, max(0, total - 1)), left="")
        self._began, self._first = time.monotonic(), done
        self._next = self._began + EVERY

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._bar.update(self._task, completed=self.total)
        if not self._bar.disable:  # rich before 14.3 prints an empty line here even without a bar
            self._bar.stop()

    def update(self, done: int, words: str = "", left: float | None = None) -> None:
        """Note how much is done.

        Args:
            done: the work done, of the total.
            words: what else to say.
            left: seconds until the end; by the speed so far if left out.
        """
        now, here = time.monotonic(), done - self._first
        self.done = done
        if left is None and here > 0:
            left = (now - self._began) * (self.total - done) / here
        text = f"{self.what}: {words}" if words else self.what
        time_left = "" if left is None else f"{in_hours(left)} left"
        # What follows the last unit, such as writing a file, is work too.
        shown = min(done, max(0, self.total - 1))
        self._bar.update(self._task, completed=shown, description=text, left=time_left)
        if self.quiet or self.console.is_terminal or now < self._next:
            return
        self._next = now + EVERY
        self.say(", ".join(filter(None, [text, f"{done} of {self.total} {self.unit}", time_left])))

    def add(self, done: int) -> None:
        """Note that so much more is done."""
        self.update(self.done + done)

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        if not self.quiet:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)
