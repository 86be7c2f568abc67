"""Which norm should I use here, and is the result transductive? One learner, trained with several norms."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tasknorm.data import tell_left_out
from tasknorm.errors import FailedRunsError, SettingsError
from tasknorm.files import alone, check_free
from tasknorm.grid import GridRun, Say, keep_timings, run_grid, speeds, tell, timings
from tasknorm.learners import CHARACTERS, LEARNERS
from tasknorm.machine import cores
from tasknorm.norms import NORMS, TaskNorm
from tasknorm.report import Comparison
from tasknorm.runs import Speed, left_out, opened_once, read_record, sampler_of
from tasknorm.settings import SHARED, PretrainSettings, Settings, meant, read_config
from tasknorm.training import RunFolder

COMPARED = ("TBN", "CBN", "RN", "LN", "IN", "MetaBN", "TaskNorm-L", "TaskNorm-I")
VALIDATIONS = 10  # of each training
LEAST = 20  # iterations
EPOCHS = 3  # of pretraining
META_BATCH = 8  # tasks of each iteration, at most, of a learner with inner steps
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
        folder: the comparison's folder, which holds a folder for each training.
        minutes: the time for everything; every training gets the same number of iterations.
        iterations: iterations of each training, in place of what fits into `minutes`.
        processes: trainings at a time; as many as cores, if left out.
        say: takes lines of text on the progress.

    Raises:
        SettingsError: if a setting or norm is unknown, or the time too short.
        FailedRunsError: if a training failed; the others are kept.
    """
    began = time.monotonic()
    check_free(folder)
    processes = processes or cores()
    trained = list(dict.fromkeys("CBN" if norm in SHARED else norm for norm in _known(norms)))
    if iterations is None and (iterations := _recorded(folder)) is not None:
        say(f"continuing the comparison in {folder}, of {iterations} iterations each; for others, choose another --out")
    runs = planned(question, trained, iterations or LEAST, folder)
    wanted = _check_tasks(question, trained)
    if wanted.skip_bad:
        tell_left_out(left_out(wanted))
    if iterations is None and runs[-1].settings.length:
        say("timing a few iterations")
        with alone(folder):
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
    learner = LEARNERS.get(question["learner"])
    first: list[GridRun] = []
    given = dict(question)
    if learner is not None and learner.wants_pretrained and given.get("pretrained") is None:
        given["pretrained"] = str(RunFolder(folder / PRETRAINING).extractor)
        first = [GridRun(PRETRAINING, _pretraining(_settings(given, trained[0], iterations)))]
    needs = tuple(run.name for run in first)
    every = [_settings(given, norm, iterations) for norm in trained]
    return [*first, *(GridRun(f"{settings.learner}-{settings.norm}", settings, needs) for settings in every)]


def _settings(question: Mapping[str, Any], norm: str, iterations: int) -> Settings:
    """A training of the comparison."""
    common: dict[str, Any] = {
        "sampling": "fixed",
        "train_way": question.get("way"),
        "train_targets": 5,
        "targets": 5,
        "validation_tasks": 20,
        "test_targets": "all,example,class",
    }
    learner = LEARNERS.get(question["learner"])
    if learner is None or learner.meta_trained:
        every = max(1, iterations // VALIDATIONS)
        common |= {"iterations": iterations, "validate_every": every, "checkpoint_every": every}
    alpha = {"alpha": "functional-shared"} if issubclass(NORMS[norm], TaskNorm) else {}
    if learner is not None and learner.has_steps:
        papers = Settings.of(common | dict(question) | {"norm": norm} | alpha)
        # More steps at meta-test, and larger meta-batches, would cost a short comparison most of its training.
        common |= {"test_steps": papers.values()["inner_steps"], "meta_batch": min(papers.meta_batch, META_BATCH)}
    return Settings.of(common | dict(question) | {"norm": norm} | alpha)


def fitting(runs: Sequence[GridRun], known: Mapping[str, Speed], seconds: float, processes: int) -> int:
    """How many iterations each training may have if all runs are to end in time.

    Args:
        runs: the same runs with a few iterations each.
        known: the speed of each kind of run.
        seconds: the time for all runs.
        processes: runs at a time.

    Raises:
        SettingsError: if there is not even time for the few.
    """
    trainings = [run for run in runs if run.name != PRETRAINING]
    rounds = -(-len(trainings) // processes) + len(runs) - len(trainings)
    there = [run.at(Path()) for run in runs]
    few = sum(run.seconds(known[run.kind()]) for run in there) / processes + rounds * START
    if few > seconds:
        least = few / RESERVE / 60 + 0.5
        raise SettingsError(
            f"budget is too short for {LEAST} iterations of each training; give it at least {least:.1f} minutes"
        )
    per_iteration = sum(known[run.at(Path()).kind()].iteration for run in trainings) / processes
    return (trainings[0].settings.length + int((seconds - few) / per_iteration)) // 10 * 10


def _speeds(runs: Sequence[GridRun], folder: Path) -> dict[str, Speed]:
    """How fast each kind of run is on this machine, one thread each."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        short = timings(runs, folder)
        for run in short:
            run.at(folder).do()
        keep_timings(short, folder)
    finally:
        torch.set_num_threads(threads)
    return speeds(runs, folder)


def _pretraining(settings: Settings) -> PretrainSettings:
    """A short pretraining of the extractor, on the training classes of the same source."""
    return PretrainSettings.of(
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


def _check_tasks(question: Mapping[str, Any], trained: Sequence[str]) -> Settings:
    """Refuse what the data cannot give before anything is written: the settings of the last training."""
    for norm in trained:
        settings = _settings({"pretrained": PRETRAINING} | dict(question), norm, LEAST)
        for spec in (opened_once(source, settings.skip_bad).spec for source in settings.sources):
            for split in ("train", "valid", "test"):
                if split != "valid" or spec.splits[split].classes:
                    sampler_of(settings, spec, split)
    return settings


def _recorded(folder: Path) -> int | None:
    """The iterations of a comparison that was begun in the folder."""
    configs = [read_config(path) for path in sorted(folder.glob(f"*/{RunFolder(folder).config.name}"))]
    return next((int(config["iterations"]) for config in configs if "iterations" in config), None)


def _known(norms: Sequence[str]) -> Sequence[str]:
    for norm in norms:
        if norm not in NORMS:
            raise SettingsError(f"unknown norm {norm!r}; {meant(norm, list(NORMS))}")
    if len(set(norms)) != len(norms) or not norms:
        raise SettingsError(f"each norm to compare must be named once, got {', '.join(norms) or 'none'}")
    return norms
