"""How long the runs of a grid will take: from runs of the same kind in its folder, timed for the purpose if need be."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

from tasknorm.files import write_atomically
from tasknorm.grid.grid_run import GridRun, last_metrics
from tasknorm.runs.meta_test import FINAL
from tasknorm.runs.record import CONFIG, RESULT
from tasknorm.runs.run import MACHINE
from tasknorm.settings.config import read_config
from tasknorm.settings.pretraining import Pretraining
from tasknorm.settings.training import Settings
from tasknorm.training.pretraining import CHECKPOINTS

TIMING, SPEEDS = ".timing", ".speeds.json"
TIMED, TESTED = 4, 3  # iterations and tasks of a run that is only timed
WORTH_TIMING = 20  # iterations, at least
# Runs of a kind differ in these alone, which hardly matter for their speed.
ALIKE = {"norm", "alpha", "seed", "iterations", "epochs", "pretrained", "learning_rate", "checkpoint_every"}
ALIKE |= {"validate_every", "validation_tasks", "test_tasks", "halve_every", "regulariser", *MACHINE}


class Speed(NamedTuple):
    """Seconds of a kind of run.

    Args:
        iteration: of training.
        task: one validation task, under one norm.
        test: one test task of every test source and way, under one norm.
    """

    iteration: float
    task: float = 0.0
    test: float = 0.0


def kind(run: GridRun) -> str:
    """What the speed of a run depends on, as a short name."""
    values = run.settings.model_dump_json(exclude=ALIKE)
    name = run.settings.learner if not isinstance(run.settings, Pretraining) else "pretrain"
    return f"{name}-{hashlib.sha256(values.encode()).hexdigest()[:8]}"


def speeds(runs: Iterable[GridRun], grid: Path) -> dict[str, Speed]:
    """The speed of each kind of run that has been seen in a grid's folder."""
    seen: dict[str, list[Speed]] = {}
    for run in runs:
        if (speed := speed_in(grid / run.name, run)) is not None:
            seen.setdefault(kind(run), []).append(speed)
    timed = _timed(grid)
    found = dict(timed)
    for name, of_kind in seen.items():
        # The tests' speed is known of finished runs only: until then, as it was timed.
        parts = zip(*of_kind, timed.get(name, Speed(0.0)), strict=True)
        found[name] = Speed(*(median([part for part in run_parts if part] or [last]) for *run_parts, last in parts))
    return found


def speed_in(folder: Path, run: GridRun) -> Speed | None:
    """The speed of the run in a folder; None if it has not come far enough."""
    if isinstance(run.settings, Pretraining):
        try:
            times = [path.stat().st_mtime for path in sorted((folder / CHECKPOINTS).glob("[0-9]*"))]
        except FileNotFoundError:  # the oldest was just removed
            return None
        return Speed(times[-1] - times[-2]) if len(times) > 1 else None
    steps = [line["seconds"] for line in last_metrics(folder) if "seconds" in line]
    result = json.loads((folder / RESULT).read_bytes()) if (folder / RESULT).exists() else {}
    iteration = result.get("seconds_per_iteration") or (median(steps) if len(steps) >= TIMED else None)
    if iteration is None:
        return None
    task = mean(result.get("seconds_per_test_task", {}).values() or [0.0])
    if not result or not (folder / FINAL).exists():
        return Speed(iteration, task, task)
    recorded = Settings.of(read_config(folder / CONFIG))
    seconds = (folder / RESULT).stat().st_mtime - (folder / FINAL).stat().st_mtime
    seconds -= _steps_chosen(recorded) * task
    tests = recorded.test_tasks * _tested(recorded)
    return Speed(iteration, task, max(task, seconds / tests) if tests else task)


def seconds_of(run: GridRun, speed: Speed) -> float:
    """Estimated seconds of a whole run."""
    seconds = run.iterations * speed.iteration
    settings = run.settings
    if isinstance(settings, Pretraining):
        return seconds
    tasks = _steps_chosen(settings)
    if settings.validate_every:
        rounds = settings.iterations // settings.validate_every * len(settings.sources)
        tasks += rounds * settings.validation_tasks * len(settings.tested_norms)
    return seconds + tasks * speed.task + settings.test_tasks * _tested(settings) * speed.test


def _tested(settings: Settings) -> int:
    """How often a test task is done: for each norm, with the final weights and the best."""
    return len(settings.tested_norms) * (2 if settings.validate_every else 1)


def _steps_chosen(settings: Settings) -> int:
    """Validation tasks on which MAML's step is chosen before a test."""
    return settings.validation_tasks * _tested(settings) if settings.learner == "maml" and settings.test_tasks else 0


def seconds_left(runs: Iterable[GridRun], grid: Path, processes: int) -> float | None:
    """Estimated seconds until all runs of known kinds are finished; None if no kind is known."""
    runs = list(runs)
    known = speeds(runs, grid)
    left = [
        max(0.0, seconds_of(run, speed) - run.done(grid) * speed.iteration)
        for run in runs
        if not run.finished(grid) and (speed := known.get(kind(run)))
    ]
    return max(sum(left) / processes, *left) if left else None


def timings(runs: Sequence[GridRun], grid: Path) -> list[GridRun]:
    """Short runs, to be done first, of each kind whose speed is not known."""
    known = speeds(runs, grid)
    found = {}
    for run in runs:
        name = kind(run)
        pretraining = isinstance(run.settings, Pretraining)
        if name in known or name in found or run.iterations < (3 if pretraining else WORTH_TIMING):
            continue
        changes: dict[str, Any] = {"iterations": TIMED, "validate_every": 0, "pretrained": None}
        changes |= {"test_tasks": TESTED, "validation_tasks": TESTED}
        if getattr(run.settings, "norm", None) == "Baseline":  # needs pretrained moments
            changes["norm"] = "IN"
        short = run.settings.model_copy(update={"epochs": 2} if pretraining else changes)
        found[name] = GridRun(f"{TIMING}/{name}", short)
    return list(found.values())


def keep_timings(short: Iterable[GridRun], grid: Path) -> None:
    """Note the speeds of runs that were only timed, and remove them."""
    found = {run.name.split("/")[1]: speed for run in short if (speed := speed_in(grid / run.name, run)) is not None}
    write_atomically(grid / SPEEDS, (json.dumps(_timed(grid) | found, indent=2) + "\n").encode())
    shutil.rmtree(grid / TIMING, ignore_errors=True)


def _timed(grid: Path) -> dict[str, Speed]:
    if not (grid / SPEEDS).exists():
        return {}
    return {name: Speed(*speed) for name, speed in json.loads((grid / SPEEDS).read_bytes()).items()}
