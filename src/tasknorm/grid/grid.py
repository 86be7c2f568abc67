"""Many runs: skips what is finished, goes on with what is not, and names what failed.

The runs are processes of this machine or tasks of a Ray cluster. A grid keeps no state but its runs' folders: killed
and started again, it goes on from their checkpoints.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tasknorm.durations import in_hours
from tasknorm.errors import SettingsError, StoppedError
from tasknorm.files import alone
from tasknorm.grid.estimates import keep_timings, seconds_left, timings
from tasknorm.grid.grid_run import GridRun
from tasknorm.grid.local_engine import LocalEngine
from tasknorm.grid.progress import GridProgress
from tasknorm.grid.ray_engine import RayEngine

Say = Callable[[str], object]


class Engine(Protocol):
    """Where runs are done."""

    processes: int

    @property
    def free(self) -> bool: ...

    def start(self, run: GridRun) -> None: ...

    def ended(self) -> dict[str, str | None]: ...

    def stop(self) -> None: ...


ENGINES: dict[str, Callable[[Path, int | None, int], Engine]] = {"local": LocalEngine, "ray": RayEngine}


def tell(text: str) -> None:
    """Say something on standard error."""
    print(text, file=sys.stderr, flush=True)


def run_grid(
    runs: Sequence[GridRun],
    folder: Path,
    engine: str = "local",
    processes: int | None = None,
    threads: int = 1,
    say: Say = tell,
    *,
    timed: bool = True,
) -> dict[str, str]:
    """Do every run that is not finished; one that fails does not keep the others from theirs.

    Args:
        runs: with different names; runs that others need among them.
        folder: the grid's folder, which holds a folder for each run.
        engine: local or ray.
        processes: runs at a time; as many as the machine has GPUs or cores, if left out.
        threads: CPU threads of each run.
        say: takes lines of text: the estimated total first, then the progress.
        timed: do a few iterations of each kind of run that is not known yet, for the estimate.

    Returns:
        Why runs failed, by name.

    Raises:
        SettingsError: if a folder holds a run with other settings, or the runs do not fit together.
        StoppedError: after SIGINT or SIGTERM, when all runs have stopped with a checkpoint.
    """
    check_runs(runs, folder)
    if engine not in ENGINES:
        raise SettingsError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    unfinished = [run for run in runs if not run.at(folder).finished()]
    if not unfinished:
        say(f"{folder}: all {len(runs)} runs are finished")
        return {}
    with alone(folder), stoppable(folder):
        where = ENGINES[engine](folder, processes, threads)
        try:
            if timed and (short := timings(unfinished, folder)):
                say(f"timing {len(short)} kinds of runs for the estimate")
                do_runs(short, where, lambda ended: None)
                keep_timings(short, folder)
            say(_plan(runs, unfinished, folder, where.processes))
            with GridProgress(runs, folder, where.processes) as progress:
                return do_runs(unfinished, where, progress.update)
        finally:
            where.stop()


def do_runs(
    runs: Sequence[GridRun],
    engine: Engine,
    update: Callable[[Mapping[str, str | None]], object],
    more: Callable[[], Sequence[GridRun]] = list,
) -> dict[str, str]:
    """Do the runs, each after those that it needs: why some failed, by name.

    Args:
        runs: those that are not finished.
        engine: where to do them.
        update: takes the runs that have just ended, and why those that failed did; called ten times a second.
        more: asked for further runs whenever none is waiting and there is room for one, until a run has failed.
    """
    waiting, running = list(runs), set[str]()
    failed: dict[str, str] = {}
    while True:
        if not waiting and not failed and engine.free:
            waiting += more()
        if not waiting and not running:
            return failed
        for run in list(waiting):
            if not engine.free:
                break
            missing = [name for name in run.needs if name in failed]
            if missing:
                failed[run.name] = f"needs {missing[0]}, which failed"
                waiting.remove(run)
            elif not any(other.name in run.needs for other in waiting) and not running & set(run.needs):
                engine.start(run)
                running.add(run.name)
                waiting.remove(run)
        ended = engine.ended()
        for name, why in ended.items():
            running.remove(name)
            if why is not None:
                failed[name] = why
        update(ended)
        time.sleep(0.1)


def check_runs(runs: Sequence[GridRun], folder: Path) -> None:
    """Refuse runs that do not fit together, or folders that hold a run with other settings."""
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            raise SettingsError(f"two runs of the grid are named {run.name}; rename one")
        if missing := set(run.needs) - set(names):
            raise SettingsError(
                f"{run.name} needs runs that are not in the grid: {', '.join(sorted(missing))}; add them"
            )
        run.at(folder).check()


def _plan(runs: Sequence[GridRun], unfinished: Sequence[GridRun], folder: Path, processes: int) -> str:
    seconds = seconds_left(unfinished, folder, processes)
    total = "not known yet" if seconds is None else f"about {in_hours(seconds)}"
    finished = len(runs) - len(unfinished)
    return f"{len(runs)} runs, {finished} of them finished; estimated total: {total}, {processes} at a time"


@contextmanager
def stoppable(folder: Path) -> Iterator[None]:
    """SIGTERM stops a grid as Ctrl-C does: its runs first."""
    received: list[int] = []

    def note(number: int, frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(
            f"stopped; the runs in {folder} keep their checkpoints, the same command goes on with them", received[0]
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
