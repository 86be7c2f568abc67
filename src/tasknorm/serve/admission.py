"""Who may come in: a bounded number of requests wait or compute, and the others are told when to come back.

The bound is what keeps the latency of admitted requests under overload: nobody ever waits behind more than `queue`
requests. Bodies have a bound of their own, in bytes, so that slow senders take no places.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tasknorm.serve.limits import Limits
from tasknorm.serve.refusals import RefusedError, busy


class Admission:
    """Places for requests that wait or compute, and room for bodies; for the event loop's thread only."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.inside = 0
        self.refused = 0
        self.body_bytes = 0
        self._seconds = 0.1  # smoothed time between two answers while requests are inside
        self._answered = time.monotonic()

    def check(self) -> None:
        """Raise if no place is free.

        Raises:
            RefusedError: 503, with the time after which a place is likely to be free.
        """
        if self.full:
            raise self.turned_away()

    @property
    def full(self) -> bool:
        """Whether no place is free."""
        return self.inside >= self.limits.queue

    def turned_away(self) -> RefusedError:
        """The refusal for a request that finds no place."""
        self.refused += 1
        rule = f"at most {self.limits.queue} requests wait or compute at a time"
        return busy(rule, self.inside, self.retry_after)

    @property
    def retry_after(self) -> int:
        """Whole seconds, at least 1, in which the requests inside are likely to be answered."""
        return min(60, max(1, math.ceil(self.inside * self._seconds)))

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for one request, until the block ends.

        Raises:
            RefusedError: 503, if none is free.
        """
        self.check()
        if not self.inside:
            self._answered = time.monotonic()
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1
            now = time.monotonic()
            self._seconds += 0.1 * (now - self._answered - self._seconds)
            self._answered = now

    def receive(self, count: int) -> None:
        """Take room for so many bytes of a body; `release` gives it back.

        Raises:
            RefusedError: 503, if all bodies together would be too large.
        """
        if self.body_bytes + count > self.limits.all_bodies_bytes:
            self.refused += 1
            rule = f"bodies that are held may have {self.limits.all_bodies_bytes:,} bytes together"
            raise busy(rule, self.body_bytes + count, self.retry_after)
        self.body_bytes += count

    def release(self, count: int) -> None:
        """Give back room that `receive` took."""
        self.body_bytes -= count
