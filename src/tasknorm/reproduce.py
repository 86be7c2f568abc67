"""Re-run the paper's tables and figures, and say how far that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tasknorm.config import SettingsError
from tasknorm.estimates import in_hours, seconds_left
from tasknorm.experiment_files import DIAGRAMS, Experiment, all_runs
from tasknorm.grid import run_grid, tell
from tasknorm.local_engine import cores
from tasknorm.report.write import write_report
from tasknorm.results import records

REPORT = "report"


def reproduce(
    experiments: Sequence[Experiment],
    scale: str,
    folder: Path,
    engine: str = "local",
    processes: int | None = None,
    threads: int = 1,
    say: Callable[[str], object] = tell,
    *,
    part: float = 1.0,
) -> dict[str, str]:
    """Do the runs of some experiments that are not finished, then report on all in the folder (see `run_grid`).

    Args:
        experiments, scale: what to do.
        folder, engine, processes, threads, say: as for `run_grid`.
        part: of each run's iterations; called again with a larger part, runs go on from where they are.

    Returns:
        Why runs failed, by name.
    """
    if not 0 < part <= 1:
        raise SettingsError(f"part is a share of each run's iterations, above 0 and at most 1, got {part}")
    runs = [run.part(part) for run in all_runs(experiments, scale, folder)]
    failed = run_grid(runs, folder, engine, processes, threads, say)
    for name, why in failed.items():
        say(f"failed: {name}: {why}\n  its log: {folder / name / 'log.txt'}")
    if failed:
        say(f"{len(failed)} of {len(runs)} runs failed; the same command tries them again")
    if found := records(folder):
        written = write_report(found, folder / REPORT)
        say(f"report on {len(found)} runs: {written[0]}")
    return failed


def listed(experiments: Sequence[Experiment], scale: str, folder: Path) -> Iterator[str]:
    """Every table and figure: its runs, those finished in a folder, and what the others cost."""
    for one in experiments:
        runs = one.runs(scale, folder)
        finished = sum(run.finished(folder) for run in runs)
        left = seconds_left(runs, folder, cores())
        measured = "" if left is None else f"; about {in_hours(left)} left on {cores()} cores"
        yield f"{one.label}: {one.title}"
        yield f"    tasknorm reproduce {one.name}: {len(runs)} runs, {finished} finished{measured}"
        yield f"    cost: {one.cost(scale)}"
        yield f"    expect: {one.expect}"
    for label in DIAGRAMS:
        yield f"{label}: a diagram; there is nothing to run"


def planned(experiments: Sequence[Experiment], scale: str, folder: Path) -> Iterator[str]:
    """The runs of some experiments, and how far each is."""
    for run in all_runs(experiments, scale, folder):
        state = "finished" if run.finished(folder) else f"{run.done(folder)} of {run.iterations} iterations"
        yield f"{run.name}: {state}"
