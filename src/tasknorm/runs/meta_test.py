"""The test of a run's weights: each norm that they serve, each source, way and manner of targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from tasknorm.episode import TARGETS, Episode, Targets
from tasknorm.errors import SettingsError
from tasknorm.evaluation import accuracies, evaluate, transduction_label
from tasknorm.learners import Learner
from tasknorm.machine import Processes, chosen_device, connected
from tasknorm.norms import TaskNorm
from tasknorm.runs.parts import as_norm, learner_of, task_of, validated_sources
from tasknorm.runs.record import Result
from tasknorm.settings import Settings, choice_error, read_config
from tasknorm.training import RunFolder, label, load_into, read_weights


def meta_test(
    settings: Settings,
    folder: Path,
    processes: Processes | None = None,
    *,
    norms: Sequence[str] | None = None,
    targets: Sequence[Targets] | None = None,
    tasks: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Test a run's final and best weights.

    Args:
        settings: the run's settings.
        folder: the run's folder.
        processes: the processes that share the tasks.
        norms, targets, tasks: what to test; as the settings say if left out.
        seed: the test tasks' seed.

    Returns:
        `accuracies`, a row each (see `tasknorm.runs.Result`), and `seconds_per_test_task` by norm, with targets
        all at once.
    """
    targets = targets or [come for come in TARGETS if come in settings.tested_targets]
    files = RunFolder(folder)
    rows: list[dict[str, Any]] = []
    seconds: dict[str, list[float]] = {}
    tests = {
        (source, way): task_of(settings, "test", seed, sources=[source], way=way)
        for source in settings.tested_sources
        for way in settings.tested_ways
    }
    for which in ("final", "best") if settings.validate_every else ("final",):
        for norm in norms or settings.tested_norms:
            path = files.final if which == "final" else files.best(norm, settings.norm)
            learner = loaded(settings, path, norm, processes)
            step = chosen_step(learner, settings, processes)
            said = transduction_label(learner, next(iter(tests.values()))(0))
            for (source, way), test in tests.items():
                shot = None if way is None else settings.shot
                for come in targets:
                    count = tasks or settings.test_tasks
                    found = evaluate(learner, test, count, come, step=step, label=said, processes=processes)
                    about = {"weights": which, "norm": norm, "source": source, "way": way, "shot": shot}
                    rows.append(Result.of(found, **about).row())  # type: ignore[arg-type]
                    if come == "all":
                        seconds.setdefault(norm, []).append(found.seconds)
    return {"accuracies": rows, "seconds_per_test_task": {norm: mean(values) for norm, values in seconds.items()}}


def evaluated(folder: Path, targets: Sequence[str], norm: str | None, tasks: int, seed: int) -> list[Result]:
    """Test the run in a folder (see `meta_test`).

    Raises:
        SettingsError: if the folder holds no finished training, or a choice is unknown.
    """
    files = RunFolder(folder)
    if not files.final.exists():
        raise SettingsError(
            f"{folder}: no finished training in this folder (no {files.final.name}); finish it, or correct the path"
        )
    for come in targets:
        if come not in TARGETS:
            raise SettingsError(f"targets {choice_error(come, TARGETS)}, got {come!r}")
    settings = Settings.of(read_config(files.config))
    chosen = [come for come in TARGETS if come in targets]
    with connected(chosen_device(settings.device).type) as processes:
        found = meta_test(
            settings, folder, processes, norms=(norm or settings.norm,), targets=chosen, tasks=tasks, seed=seed
        )
    return [Result.of_row(row) for row in found["accuracies"]]


def loaded(settings: Settings, path: Path, norm: str, processes: Processes | None = None) -> Learner:
    """A trained learner, under a norm that shares its training; the first process reads its weights."""
    if norm not in settings.tested_norms:
        raise SettingsError(
            f"norm={norm} contradicts the run, which trained {settings.trained_norm} and serves "
            f"{', '.join(settings.tested_norms)}; choose one of these"
        )
    learner = learner_of(settings, pretrained=False)
    processes = processes or Processes()
    about = label(settings.learner, settings.trained_norm)
    load_into(learner, processes.same(read_weights(path, about) if processes.first else None), path)
    return as_norm(learner, norm, settings).to(chosen_device(settings.device))


def validation_tasks(settings: Settings) -> dict[str, Callable[[int], Episode]]:
    """Validation tasks of each source that is validated on."""
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
