"""What the service counts, as Prometheus reads it: requests, seconds, batches, and what the process holds now."""

from __future__ import annotations

import bisect
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
IMAGES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Histogram:
    """Counts of values by upper bound, their number and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str) -> list[str]:
        """The histogram in Prometheus' text format."""
        found, total = [], 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            found.append(f'{name}_bucket{{{labels}{"," if labels else ""}le="{bound}"}} {total}')
        braces = f"{{{labels}}}" if labels else ""
        return [*found, f"{name}_sum{braces} {self.sum:.6f}", f"{name}_count{braces} {total}"]


class Metrics:
    """Counters of a service; any thread may add to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._batches = Histogram(IMAGES)
        self._numbers: dict[str, tuple[str, Callable[[], float]]] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered.

        Args:
            method, route: of the request; the route is a template such as `/predictors/{id}`, never a caller's path.
            status: of the answer.
            seconds: from the request's headers to the answer.
        """
        with self._lock:
            self._requests[method, route, status] += 1
            self._seconds.setdefault(route, Histogram(SECONDS)).add(seconds)

    def batch(self, images: int) -> None:
        """Count a pass of so many images through a net."""
        with self._lock:
            self._batches.add(images)

    def number(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Have a number read whenever the metrics are asked for; one that only grows has a name that ends in _total."""
        self._numbers[name] = text, value

    def text(self) -> str:
        """All of it in Prometheus' text format."""
        with self._lock:
            lines = _head("tasknorm_requests_total", "counter", "Requests by method, route and status.")
            for (method, route, status), count in sorted(self._requests.items()):
                lines.append(f'tasknorm_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}')
            lines += _head("tasknorm_request_seconds", "histogram", "Seconds from a request's headers to its answer.")
            for route, histogram in sorted(self._seconds.items()):
                lines += histogram.lines("tasknorm_request_seconds", f'route="{route}"')
            lines += _head("tasknorm_batch_images", "histogram", "Images of one pass through a net.")
            lines += self._batches.lines("tasknorm_batch_images", "")
        for name, (text, value) in self._numbers.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [*_head(name, kind, text), f"{name} {value():.16g}"]
        lines += _resident()
        lines += _head("tasknorm_start_time_seconds", "gauge", "When the service began, in seconds since 1970.")
        return "\n".join([*lines, f"tasknorm_start_time_seconds {self._began:.3f}", ""])


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _resident() -> list[str]:
    """The memory of the process, where the system tells it."""
    status = Path("/proc/self/statm")
    if not status.exists():
        return []
    pages = int(status.read_text().split()[1])
    head = _head("tasknorm_resident_bytes", "gauge", "Memory of the process.")
    return [*head, f"tasknorm_resident_bytes {pages * os.sysconf('SC_PAGE_SIZE')}"]
