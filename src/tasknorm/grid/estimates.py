"""How long the runs of a grid will take: from runs of the same kind in its folder, timed for the purpose if need be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from tasknorm.files import write_atomically
from tasknorm.grid.grid_run import GridRun
from tasknorm.runs import Speed

TIMING, SPEEDS = ".timing", ".speeds.json"


def speeds(runs: Iterable[GridRun], grid: Path) -> dict[str, Speed]:
    """The speed of each kind of run that has been seen in a grid's folder."""
    seen: dict[str, list[Speed]] = {}
    for run in (run.at(grid) for run in runs):
        if (speed := run.speed()) is not None:
            seen.setdefault(run.kind(), []).append(speed)
    timed = _timed(grid)
    found = dict(timed)
    for name, of_kind in seen.items():
        # The tests' speed is known of finished runs only: until then, as it was timed.
        parts = zip(*of_kind, timed.get(name, Speed(0.0)), strict=True)
        found[name] = Speed(*(median([part for part in run_parts if part] or [last]) for *run_parts, last in parts))
    return found


def seconds_left(runs: Iterable[GridRun], grid: Path, processes: int) -> float | None:
    """Estimated seconds until all runs of known kinds are finished; None if no kind is known."""
    runs = list(runs)
    known = speeds(runs, grid)
    left = [
        max(0.0, run.seconds(speed) - run.done() * speed.iteration)
        for run in (run.at(grid) for run in runs)
        if not run.finished() and (speed := known.get(run.kind()))
    ]
    return max(sum(left) / processes, *left) if left else None


def timings(runs: Sequence[GridRun], grid: Path) -> list[GridRun]:
    """Short runs, to be done first, of each kind whose speed is not known."""
    known = speeds(runs, grid)
    found: dict[str, GridRun] = {}
    for run in (run.at(grid) for run in runs):
        name = run.kind()
        if name not in known and name not in found and (short := run.shortened()) is not None:
            found[name] = GridRun(f"{TIMING}/{name}", short)
    return list(found.values())


def keep_timings(short: Iterable[GridRun], grid: Path) -> None:
    """Note the speeds of runs that were only timed, and remove them."""
    found = {run.name.split("/")[1]: speed for run in short if (speed := run.at(grid).speed()) is not None}
    write_atomically(grid / SPEEDS, (json.dumps(_timed(grid) | found, indent=2) + "\n").encode())
    shutil.rmtree(grid / TIMING, ignore_errors=True)


def _timed(grid: Path) -> dict[str, Speed]:
    if not (grid / SPEEDS).exists():
        return {}
    return {name: Speed(*speed) for name, speed in json.loads((grid / SPEEDS).read_bytes()).items()}
