"""One run from its description: train, test, and what stays in its folder."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tasknorm.data.atomic import write_atomically
from tasknorm.devices import chosen_device
from tasknorm.episode import Episode
from tasknorm.evaluate import TARGETS, Evaluation, Targets, accuracies, evaluate
from tasknorm.from_settings import as_norm, learner_of, task_of
from tasknorm.ranks import Ranks, ranks
from tasknorm.settings import Settings, SettingsError, parsed, read_config
from tasknorm.train import best_name, train
from tasknorm.weights import label, read_weights, weights_of, write_weights

CONFIG, RESULT, FINAL = "config.json", "result.json", "model.safetensors"
MACHINE = ("device", "workers", "tensorboard", "at_once")  # may differ when a run goes on


def run(settings: Settings, folder: Path) -> dict[str, Any]:
    """Train, test and record one run; goes on from its newest checkpoint, and does nothing if it is finished.

    Returns:
        The contents of `result.json`.
    """
    if (folder / RESULT).exists():
        print(f"{folder}: finished already", file=sys.stderr)
        return dict(json.loads((folder / RESULT).read_bytes()))
    device = chosen_device(settings.device)
    with ranks(device.type) as all_ranks:
        if all_ranks.count > settings.meta_batch:
            raise SettingsError(
                f"meta_batch={settings.meta_batch} tasks cannot be shared by {all_ranks.count} processes; start fewer"
            )
        began = time.monotonic()
        learner = learner_of(settings).to(device)
        tasks, valid_tasks = task_of(settings, "train"), task_of(settings, "valid")
        if all_ranks.first and not (folder / CONFIG).exists():
            write_atomically(folder / CONFIG, (settings.model_dump_json(indent=2) + "\n").encode())
        validate = partial(validation, settings=settings, episode=valid_tasks, all_ranks=all_ranks)
        train(learner, settings, tasks, validate, folder, all_ranks)
        seconds = time.monotonic() - began
        weights = weights_of(learner)
        if all_ranks.first:
            write_weights(folder / FINAL, weights, label(settings.learner, settings.trained_norm))
        result = {"tasknorm": version("tasknorm"), "torch": torch.__version__, "seconds": seconds}
        result |= accuracies_of(settings, folder, all_ranks) if settings.test_tasks else {}
        if all_ranks.first:
            write_atomically(folder / RESULT, (json.dumps(result, indent=2) + "\n").encode())
    return result


def validation(
    learner: nn.Module, settings: Settings, episode: Callable[[int], Episode], all_ranks: Ranks
) -> dict[str, float]:
    """Accuracy on the validation tasks under each norm that the weights serve."""
    found = {}
    for norm in settings.tested_norms:
        table = accuracies(as_norm(learner, norm, settings), episode, settings.validation_tasks, ranks=all_ranks)
        found[norm] = float(table.mean(0).max())
    return found


def chosen_step(learner: nn.Module, settings: Settings, all_ranks: Ranks | None) -> int | None:
    """MAML's inner step with the best accuracy on the validation tasks; None for learners without steps."""
    if not hasattr(learner, "steps"):
        return None
    table = accuracies(learner, task_of(settings, "valid"), settings.validation_tasks, ranks=all_ranks)
    return 1 + int(table.mean(0).argmax())


def accuracies_of(
    settings: Settings,
    folder: Path,
    all_ranks: Ranks | None = None,
    *,
    norms: Sequence[str] | None = None,
    targets: Sequence[Targets] = ("all",),
    tasks: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Test a run's final and best weights: `{"final": {norm: {targets: evaluation}}, "best": ...}`.

    MAML's inner step is chosen on the validation tasks.
    """
    results: dict[str, Any] = {}
    for which in ("final", "best"):
        for norm in norms or settings.tested_norms:
            path = folder / (FINAL if which == "final" else best_name(norm, settings))
            if which == "best" and not settings.validate_every:
                continue
            learner = loaded(settings, path, norm, all_ranks)
            step = chosen_step(learner, settings, all_ranks)
            test = task_of(settings, "test", seed)
            for way in targets:
                found = evaluate(learner, test, tasks or settings.test_tasks or 600, way, step=step, ranks=all_ranks)
                results.setdefault(which, {}).setdefault(norm, {})[way] = described(found)
    return results


def evaluated(folder: Path, targets: Sequence[str], norm: str | None, tasks: int, seed: int) -> dict[str, Any]:
    """Test the run in a folder (see `accuracies_of`).

    Raises:
        SettingsError: if the folder holds no finished training, or a choice is unknown.
    """
    if not (folder / FINAL).exists():
        raise SettingsError(f"{folder}: to evaluate, a folder must hold a run's {FINAL}; finish its training first")
    for way in targets:
        if way not in TARGETS:
            raise SettingsError(f"targets are {', '.join(TARGETS)}, got {way!r}; name some of these")
    settings = Settings.of(read_config(folder / CONFIG))
    norms = (norm or settings.norm,)
    chosen = [way for way in TARGETS if way in targets]
    with ranks(chosen_device(settings.device).type) as all_ranks:
        return accuracies_of(settings, folder, all_ranks, norms=norms, targets=chosen, tasks=tasks, seed=seed)


def loaded(settings: Settings, path: Path, norm: str, all_ranks: Ranks | None = None) -> nn.Module:
    """A trained learner, under a norm that shares its training; the first process reads its weights."""
    if norm not in settings.tested_norms:
        raise SettingsError(
            f"norm={norm} contradicts the run, which trained {settings.trained_norm} and serves "
            f"{', '.join(settings.tested_norms)}; choose one of these"
        )
    learner = learner_of(settings)
    all_ranks = all_ranks or Ranks()
    about = label(settings.learner, settings.trained_norm)
    learner.load_state_dict(all_ranks.same(read_weights(path, about) if all_ranks.first else None))
    return as_norm(learner, norm, settings).to(chosen_device(settings.device))


def described(found: Evaluation) -> dict[str, Any]:
    """An evaluation as JSON has it."""
    values = {"targets": found.targets, "tasks": found.tasks, "label": found.label} | asdict(found.mean)
    if not found.steps:
        return values
    steps = [asdict(mean) for mean in found.steps]
    return values | {"step": found.step, "maximum": asdict(found.maximum), "steps": steps}


def settled(given: dict[str, Any], config: Path | None, folder: Path, resume: bool) -> Settings:
    """The settings of the run in a folder: what its config says, or a config file and flags.

    Raises:
        SettingsError: if the folder is in use and is not to be resumed, or the settings contradict the run in it.
    """
    given = (read_config(config) if config else {}) | given
    used = folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir())
    if used and not resume:
        raise SettingsError(f"{folder}: a run needs an empty folder, and this is not; add --resume or choose another")
    if not used:
        return Settings.of(given)
    if not (folder / CONFIG).exists():
        raise SettingsError(f"{folder}: to resume, a folder must hold a run's {CONFIG}, and this has none")
    recorded = read_config(folder / CONFIG)
    for key in given.keys() & recorded.keys() - set(MACHINE):
        if (value := parsed(key, given[key])) != recorded[key]:
            raise SettingsError(
                f"{key}={value} contradicts the run in {folder}, which has {key}={recorded[key]}; leave it out"
            )
    Settings.of(recorded | given)  # refuses what is no setting
    return Settings.of(recorded | {key: value for key, value in given.items() if key in MACHINE})
