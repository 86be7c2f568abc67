"""Which norm should I use here, and is the result transductive? One learner, trained with several norms."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tasknorm.config import SettingsError, read_config
from tasknorm.data.left_out import tell_left_out
from tasknorm.estimates import Speed, keep_timings, kind, seconds_of, speeds, timings
from tasknorm.experiment import run as run_once
from tasknorm.from_settings import left_out, opened_once, sampler_of
from tasknorm.grid import FailedRunsError, Say, run_grid, tell
from tasknorm.grid_run import GridRun
from tasknorm.local_engine import cores
from tasknorm.norms import NORMS, TaskNorm
from tasknorm.pretrain import EXTRACTOR, Pretraining, pretrain
from tasknorm.protocols import CHARACTERS
from tasknorm.report.comparison import Comparison
from tasknorm.results import CONFIG, read_record
from tasknorm.settings import SHARED, Settings

COMPARED = ("TBN", "CBN", "RN", "LN", "IN", "MetaBN", "TaskNorm-L", "TaskNorm-I")
VALIDATIONS = 10  # of each training
LEAST = 20  # iterations
EPOCHS = 3  # of pretraining
PRETRAINING = "pretraining"
START = 6.0  # seconds until a process is at work
RESERVE = 0.85  # of the budget may be planned: processes share the machine's memory


def compare(
    question: Mapping[str, Any],
    norms: Sequence[str],
    folder: Path,
    *,
    minutes: float = 4.0,
    iterations: int | None = None,
    processes: int | None = None,
    say: Say = tell,
) -> Comparison:
    """Train a learner with each norm, and test it with targets all at once, by example and by class.

    TBN, CBN and RN share one training. Called again with the same question, it goes on where it stopped.

    Args:
        question: settings that differ from the papers': learner, source, way, shot, ...
        norms: labels of the norms to compare.
        folder: holds a folder for each training.
        minutes: what it may take in all; every training gets the same number of iterations.
        iterations: of each training, in place of what fits into `minutes`.
        processes: trainings at a time; as many as cores, if left out.
        say: is told how it goes.

    Raises:
        SettingsError: if a setting or norm is unknown, or the time too short.
        FailedRunsError: if a training failed; the others are kept.
    """
    began = time.monotonic()
    processes = processes or cores()
    trained = list(dict.fromkeys("CBN" if norm in SHARED else norm for norm in _known(norms)))
    if iterations is None and (iterations := _recorded(folder)) is not None:
        say(f"going on with the {iterations} iterations of the comparison in {folder}; for others, use another folder")
    runs = planned(question, trained, iterations or LEAST, folder)
    _check_tasks(runs)
    if isinstance(runs[-1].settings, Settings) and runs[-1].settings.skip_bad:
        tell_left_out(left_out(runs[-1].settings))
    if iterations is None:
        say("timing a few iterations")
        known = _speeds(runs, folder)
        left = 60 * minutes * RESERVE - (time.monotonic() - began)
        iterations = fitting(runs, known, left, processes)
        say(f"{len(trained)} trainings of {iterations} iterations each fit into {minutes:g} minutes")
        runs = planned(question, trained, iterations, folder)
    failed = run_grid(runs, folder, processes=processes, say=say, timed=False)
    if failed:
        raise FailedRunsError("; ".join(f"{name} failed: {why}" for name, why in failed.items()))
    trainings = [run for run in runs if run.name != PRETRAINING]
    return Comparison([read_record(folder / run.name) for run in trainings], list(norms))


def planned(question: Mapping[str, Any], trained: Sequence[str], iterations: int, folder: Path) -> list[GridRun]:
    """One run for each norm that is trained; CNAPs' extractor is pretrained first."""
    common: dict[str, Any] = {
        "sampling": "fixed",
        "train_way": question.get("way"),
        "train_targets": 5,
        "targets": 5,
        "iterations": iterations,
        "validate_every": max(1, iterations // VALIDATIONS),
        "validation_tasks": 20,
        "test_targets": "all,example,class",
        "checkpoint_every": max(1, iterations // VALIDATIONS),
    } | dict(question)
    every = [
        Settings.of(common | {"norm": norm} | ({"alpha": "functional-shared"} if _is_task_norm(norm) else {}))
        for norm in trained
    ]
    if every[0].learner != "cnaps" or every[0].pretrained is not None:
        return [GridRun(f"{settings.learner}-{settings.norm}", settings) for settings in every]
    extractor = str(folder / PRETRAINING / EXTRACTOR)
    runs = [GridRun(PRETRAINING, _pretraining(every[0]))]
    for settings in every:
        with_weights = settings.model_copy(update={"pretrained": extractor})
        runs.append(GridRun(f"{settings.learner}-{settings.norm}", with_weights, needs=(PRETRAINING,)))
    return runs


def fitting(runs: Sequence[GridRun], known: Mapping[str, Speed], seconds: float, processes: int) -> int:
    """How many iterations each training may have if all runs are to end in time.

    Args:
        runs: of a few iterations each.
        known: the speed of each kind of run.
        seconds: for all runs.
        processes: runs at a time.

    Raises:
        SettingsError: if there is not even time for the few.
    """
    trainings = [run for run in runs if isinstance(run.settings, Settings)]
    rounds = -(-len(trainings) // processes) + len(runs) - len(trainings)
    few = sum(seconds_of(run, known[kind(run)]) for run in runs) / processes + rounds * START
    if few > seconds:
        least = few / RESERVE / 60 + 0.5
        raise SettingsError(f"budget must leave time for {LEAST} iterations; give it at least {least:.1f} minutes")
    per_iteration = sum(known[kind(run)].iteration for run in trainings) / processes
    return (trainings[0].iterations + int((seconds - few) / per_iteration)) // 10 * 10


def _speeds(runs: Sequence[GridRun], folder: Path) -> dict[str, Speed]:
    """How fast each kind of run is on this machine, one thread each."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        short = timings(runs, folder)
        for run in short:
            if isinstance(run.settings, Settings):
                run_once(run.settings, folder / run.name)
            else:
                pretrain(run.settings, folder / run.name, lambda text: None)
        keep_timings(short, folder)
    finally:
        torch.set_num_threads(threads)
    return speeds(runs, folder)


def _pretraining(settings: Settings) -> Pretraining:
    """A short pretraining of the extractor, on the training classes of the same source."""
    return Pretraining.of(
        {
            "source": settings.source,
            "net": settings.net,
            "image_size": settings.image_size,
            "scale": settings.scale,
            "epochs": EPOCHS,
            "divide_every": EPOCHS - 1,
            "batch": 64,
            "crop": 2,
            "flip": settings.source not in CHARACTERS,
            "skip_bad": settings.skip_bad,
            "seed": settings.seed,
        }
    )


def _check_tasks(runs: Sequence[GridRun]) -> None:
    """Refuse what the data cannot give before anything is written."""
    for settings in (run.settings for run in runs if isinstance(run.settings, Settings)):
        for spec in (opened_once(source, settings.skip_bad).spec for source in settings.sources):
            for split in ("train", "valid", "test"):
                if split != "valid" or spec.splits[split].classes:
                    sampler_of(settings, spec, split)


def _recorded(folder: Path) -> int | None:
    """The iterations of a comparison that was begun in the folder."""
    configs = [read_config(path) for path in sorted(folder.glob(f"*/{CONFIG}"))]
    return next((int(config["iterations"]) for config in configs if "iterations" in config), None)


def _is_task_norm(norm: str) -> bool:
    return issubclass(NORMS[norm], TaskNorm)


def _known(norms: Sequence[str]) -> Sequence[str]:
    for norm in norms:
        if norm not in NORMS:
            raise SettingsError(f"norms are {', '.join(NORMS)}, got {norm!r}; name some of these")
    if len(set(norms)) != len(norms) or not norms:
        raise SettingsError(f"norms to compare are named once each, got {', '.join(norms) or 'none'}")
    return norms
