"""Time and memory of steps, for all benchmarks: the fastest of several runs, and the peak of allocated bytes."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # hides the profiler's messages at every start and stop

from torch.profiler import ProfilerActivity, profile

Step = Callable[[], Any]


def fastest(steps: Mapping[str, Step], repeats: int, *, warm: bool = False) -> dict[str, float]:
    """Seconds of the fastest run of each step; the steps run in turn, after two runs each to warm up.

    Args:
        steps: what to time.
        repeats: how often.
        warm: let each timed run follow one of the same step that is not timed, as in a training; the processor's caches
            otherwise hold what the step before it left there.
    """
    best = dict.fromkeys(steps, math.inf)
    for step in steps.values():
        step()
        step()
    for _ in range(repeats):
        for name, step in steps.items():
            if warm:
                step()
            start = time.perf_counter()
            step()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_bytes(step: Step) -> int:
    """The largest number of bytes that a step holds at once, beyond those allocated before it."""
    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    results: Any = profiler.profiler
    events = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak
