"""The test of a run's weights: each norm that they serve, each source, way and manner of targets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from tasknorm.episode import TARGETS, Episode
from tasknorm.errors import SettingsError
from tasknorm.evaluation import Accuracy, Evaluation, accuracies, evaluate, transduction_label
from tasknorm.learners import Learner
from tasknorm.machine import Processes, chosen_device, connected
from tasknorm.norms import TaskNorm
from tasknorm.progress import Progress
from tasknorm.runs.candidates import before_training, candidate_of
from tasknorm.runs.parts import as_norm, learner_of, task_of, validated_sources
from tasknorm.runs.record import Result
from tasknorm.settings import AS_IT_WAS, START, Settings, choice_error, read_config
from tasknorm.training import RunFolder, label, load_into, read_weights

UNTOUCHED = "Baseline"  # the norm of a pretrained network as it was
AUDITED = 2  # tasks on which a norm is audited, where that saves tests


def meta_test(
    settings: Settings,
    folder: Path,
    processes: Processes | None = None,
    *,
    norms: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Test a run's weights, as its settings say.

    Args:
        settings: the run's settings.
        folder: the run's folder.
        processes: the processes that share the tasks.
        norms: the norms to test; all that share the training if left out.

    Returns:
        `accuracies`, a row each (see `tasknorm.runs.Result`); `seconds_per_test_task` by norm, with targets all at
        once; `audited`, the number of tasks that each norm was audited on; `spent`, the seconds of tests and audits.
    """
    targets = [come for come in TARGETS if come in settings.tested_targets]
    audited = min(AUDITED, settings.test_tasks) if settings.skip_proven else 1
    files, spent = RunFolder(folder), {"audit": 0.0, "test": 0.0}
    rows: list[Result] = []
    seconds: dict[str, list[float]] = {}
    tests = {
        (source, way): task_of(settings, "test", settings.test_seed, sources=[source], way=way)
        for source in settings.tested_sources
        for way in settings.tested_ways
    }
    first = next(iter(tests.values()))
    pairs = list(_to_test(settings, norms or settings.tested_norms))
    before: dict[tuple[str | None, str], list[Result]] = {}  # by candidate and norm
    untouched: dict[tuple[str, int | None, str], Evaluation] = {}
    work = settings.test_tasks * len(tests) * len(targets)  # of a pair, if its norm is not proven
    with Progress("testing", work * len(pairs), "tasks", quiet=not (processes or Processes()).first) as progress:
        for number, (which, norm) in enumerate(pairs):
            progress.update(number * work)
            candidate = _candidate(settings, files, which, norm, processes)
            if same := before.get((candidate, norm if candidate != AS_IT_WAS else UNTOUCHED)):
                rows += [replace(row, weights=which, norm=norm, candidate=candidate) for row in same]
                continue
            if which in (AS_IT_WAS, START):
                learner = before_training(settings, which, norm)
            else:
                learner = loaded(settings, _path(settings, files, which, norm), norm, processes)
            mine: list[Result] = []
            with _timed(spent, "audit"):
                said = transduction_label(learner, *(first(task) for task in range(audited)))
            proven = settings.skip_proven and said == "non-transductive"
            with _timed(spent, "test"):
                step = chosen_step(learner, settings, processes)
                test_of = partial(evaluate, learner, step=step, label=said, processes=processes, note=progress.add)
                for (source, way), come in product(tests, targets[:1] if proven else targets):
                    found = test_of(tests[source, way], settings.test_tasks, come)
                    shot = None if way is None else settings.shot
                    untouched |= {(source, way, come): found} if which == AS_IT_WAS else {}
                    row = Result.of(found, weights=which, norm=norm, source=source, way=way, shot=shot)
                    base = untouched.get((source, way, come), untouched.get((source, way, "all")))
                    gain = None if base is None else _gain(found, base)
                    mine.append(replace(row, candidate=candidate, gain=gain))
                    if come == "all":
                        seconds.setdefault(norm, []).append(found.seconds)
            rows += mine
            if candidate is not None:
                before[candidate, norm] = mine
    per_task = {norm: mean(values) for norm, values in seconds.items()}
    told = [row.row() for row in rows]
    return {"accuracies": told, "seconds_per_test_task": per_task, "audited": audited, "spent": spent}


def _to_test(settings: Settings, norms: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The weights that are tested, each with a norm; the network as it was comes first, and once."""
    for which in settings.tested_weights:
        yield from [(which, UNTOUCHED)] if which == AS_IT_WAS else [(which, norm) for norm in norms]


def _path(settings: Settings, files: RunFolder, which: str, norm: str) -> Path:
    return files.final if which == "final" else files.best(norm, settings.norm)


def _candidate(settings: Settings, files: RunFolder, which: str, norm: str, processes: Processes | None) -> str | None:
    """Which candidate of a tuning some weights are, so that none is tested twice; None if the run has no candidates."""
    if which in (AS_IT_WAS, START):
        return which
    if not settings.as_it_was:
        return None
    if which == "final":
        return f"iteration {settings.iterations}"
    processes = processes or Processes()
    found: str | None = processes.same(
        candidate_of(settings, _path(settings, files, which, norm)) if processes.first else None
    )
    return found


def _gain(found: Evaluation, base: Evaluation) -> Accuracy:
    """The difference on the same tasks, with its interval over them."""
    difference = torch.tensor(found.by_task, dtype=torch.float64) - torch.tensor(base.by_task, dtype=torch.float64)
    return Accuracy.over(difference)


@contextmanager
def _timed(spent: dict[str, float], what: str) -> Iterator[None]:
    """Add the seconds of a block to those spent."""
    began = time.monotonic()
    yield
    spent[what] += time.monotonic() - began


def evaluated(
    folder: Path, targets: Sequence[str], norm: str | None, tasks: int, seed: int, chunk: int | None = None
) -> list[Result]:
    """Test the run in a folder (see `meta_test`).

    Raises:
        SettingsError: if the folder holds no finished training, or a choice is unknown.
    """
    files = RunFolder(folder)
    settings = in_chunks(settings_of(files), chunk)
    norm = norm or settings.norm
    for come in targets:
        if come not in TARGETS:
            raise SettingsError(f"targets {choice_error(come, TARGETS)}, got {come!r}")
    pretrained = settings.pretrained is None or Path(settings.pretrained).is_file()
    weights = "all" if settings.test_weights == "all" and pretrained else "both"
    if settings.test_weights == "final" and not files.best(norm, settings.norm).is_file():
        weights = "final"  # the others were of no use, and not kept
    settings = settings.model_copy(
        update={
            "test_targets": ",".join(targets),
            "test_tasks": tasks,
            "test_seed": seed,
            "test_weights": weights,
            "skip_proven": False,
        }
    )
    with connected(chosen_device(settings.device).type) as processes:
        found = meta_test(settings, folder, processes, norms=(norm,))
    return [Result.of_row(row) for row in found["accuracies"]]


def in_chunks(settings: Settings, chunk: int | None) -> Settings:
    """The settings with another number of images that pass at a time; as they are if None."""
    return settings if chunk is None else settings.model_copy(update={"chunk": chunk, "compile": False})


def settings_of(files: RunFolder) -> Settings:
    """The settings of a training that has its weights.

    Raises:
        SettingsError: if the folder holds no finished training.
    """
    if files.path.is_file():
        raise SettingsError(
            f"{files.path}: this is a file, and a run is a folder; name the folder that `tasknorm train` or "
            "`tasknorm tune` wrote"
        )
    if not files.final.exists():
        raise SettingsError(
            f"{files.path}: no finished training in this folder (no {files.final.name}); finish it, or correct the path"
        )
    return Settings.of(read_config(files.config))


def check_serves(settings: Settings, norm: str) -> None:
    """Raise unless a run's weights serve a norm."""
    if norm not in settings.tested_norms:
        raise SettingsError(
            f"norm={norm} contradicts the run, which trained {settings.trained_norm} and serves "
            f"{', '.join(settings.tested_norms)}; choose one of these"
        )


def weights_file(settings: Settings, files: RunFolder, norm: str) -> Path:
    """The weights that did best on validation under a norm; the final ones if those are what the run tests."""
    return files.best(norm, settings.norm) if settings.tested_weights[-1] == "best" else files.final


def loaded(
    settings: Settings, path: Path, norm: str, processes: Processes | None = None, *, channels: int | None = None
) -> Learner:
    """A trained learner, under a norm that shares its training; the first process reads its weights.

    If the file holds the pretrained network as it was, it is that, with its batch norms as they were.

    Args:
        settings: the run's settings.
        path: the weights.
        norm: label of the norm.
        processes: those that need the learner.
        channels: of the images, if they are known; the run's sources are opened otherwise.
    """
    check_serves(settings, norm)
    processes = processes or Processes()
    if processes.same(candidate_of(settings, path) if processes.first else None) == AS_IT_WAS:
        settings, norm = settings.untouched, UNTOUCHED
    learner = learner_of(settings, pretrained=False, channels=channels)
    about = label(settings.learner, settings.trained_norm)
    load_into(learner, processes.same(read_weights(path, about) if processes.first else None), path)
    return as_norm(learner, norm, settings).to(chosen_device(settings.device))


def validation_tasks(settings: Settings) -> dict[str, Callable[[int], Episode]]:
    """Validation tasks of each source that is validated on."""
    if not settings.validation_tasks:
        return {}
    return {source: task_of(settings, "valid", sources=[source]) for source in validated_sources(settings)}


def chosen_step(learner: Learner, settings: Settings, processes: Processes | None = None) -> int | None:
    """The inner step with the best accuracy on the validation tasks; None for learners without steps.

    Where no source has validation tasks it is the last step.
    """
    if not learner.has_steps:
        return None
    tables = [
        accuracies(learner, tasks, settings.validation_tasks, processes=processes)
        for tasks in validation_tasks(settings).values()
    ]
    return 1 + int(torch.cat(tables).mean(0).argmax()) if tables else learner.test_steps


def alphas_of(learner: Learner) -> list[dict[str, Any]]:
    """SCALE and OFFSET of each TaskNorm layer (section 4.2): numbers, or a number for each channel."""
    return [
        {
            "layer": name.removeprefix("net."),
            "scale": None if norm.alpha_scale is None else norm.alpha_scale.tolist(),
            "offset": norm.alpha_offset.tolist(),
        }
        for name, norm in learner.named_modules()
        if isinstance(norm, TaskNorm)
    ]
