"""Re-run the paper's tables and figures, and say how far that is."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tasknorm.durations import in_hours
from tasknorm.errors import DataError, SettingsError
from tasknorm.grid import DIAGRAMS, Experiment, GridRun, all_runs, run_grid, seconds_left, tell
from tasknorm.machine import cores
from tasknorm.report import write_report
from tasknorm.runs import opened_once, records
from tasknorm.training import RunFolder

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
    only: Sequence[str] = (),
) -> dict[str, str]:
    """Do the runs of some experiments that are not finished, then report on all in the folder (see `run_grid`).

    Args:
        experiments, scale: the experiments, and the size of their runs.
        folder, engine, processes, threads, say: as for `run_grid`.
        part: the share of each run's iterations to do; called again with a larger one, runs continue from there.
        only: patterns of names, such as `maml-omniglot-20-*`: do the runs that fit one of them, and what they need.

    Returns:
        Why runs failed, by name.
    """
    runs = _parts(experiments, scale, folder, part, only)
    unfinished = [run for run in runs if not run.at(folder).finished()]
    lacking = without_data(unfinished) if engine == "local" else {}  # other machines may have theirs
    there = [run for run in runs if run.name not in lacking]
    failed = run_grid(there, folder, engine, processes, threads, say) if there else {}
    for name, why in failed.items():
        log = RunFolder(folder / name).log
        say(f"failed: {name}: {why}" + (f"\n  its log: {log}" if log.exists() else ""))
    for why in dict.fromkeys(lacking.values()):
        say(f"not begun: {', '.join(name for name in lacking if lacking[name] == why)}: {why}")
    failed |= lacking
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
        finished = sum(run.at(folder).finished() for run in runs)
        left = seconds_left(runs, folder, cores())
        measured = "" if left is None else f"; about {in_hours(left)} left on {cores()} cores"
        yield f"{one.label}: {one.title}"
        yield f"    tasknorm reproduce {one.name}: {len(runs)} runs, {finished} finished{measured}"
        yield f"    cost: {one.cost(scale)}"
        yield f"    expect: {one.expect}"
    for label in DIAGRAMS:
        yield f"{label}: a diagram; there is nothing to run"


def without_data(runs: Sequence[GridRun]) -> dict[str, str]:
    """The runs that need a source which is not there, or a run that does, and which."""
    found: dict[str, str] = {}
    for run in runs:
        for source in run.settings.all_sources:
            try:
                opened_once(source)
            except DataError as error:
                found.setdefault(run.name, str(error))
    needed = {run.name: found[name] for run in runs for name in run.needs if name in found}
    return needed | found


def _parts(
    experiments: Sequence[Experiment], scale: str, folder: Path, part: float, only: Sequence[str]
) -> list[GridRun]:
    if not 0 < part <= 1:
        raise SettingsError(f"part must be a share of each run's iterations, above 0 and at most 1, got {part}")
    return [run.part(part) for run in _only(all_runs(experiments, scale, folder), only)]


def _only(runs: Sequence[GridRun], patterns: Sequence[str]) -> list[GridRun]:
    """The runs whose name fits a pattern, and those that they need; all runs if there is no pattern."""
    for pattern in patterns:
        if not fnmatch.filter([run.name for run in runs], pattern):
            raise SettingsError(f"no run is named {pattern!r}; the first of {len(runs)} is {runs[0].name!r}")
    chosen = [run for run in runs if not patterns or any(fnmatch.fnmatchcase(run.name, each) for each in patterns)]
    needed = {name for run in chosen for name in run.needs}
    return [run for run in runs if run in chosen or run.name in needed]


def planned(
    experiments: Sequence[Experiment], scale: str, folder: Path, part: float = 1.0, only: Sequence[str] = ()
) -> Iterator[str]:
    """The runs of some experiments, and how far each is."""
    for run in _parts(experiments, scale, folder, part, only):
        state = (
            "finished"
            if run.at(folder).finished()
            else f"{run.at(folder).done()} of {run.settings.length} {run.settings.length_name}"
        )
        yield f"{run.name}: {state}"
