"""One run from its description: train, test, and what stays in its folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from tasknorm.checkpoint import last_iteration
from tasknorm.config import SettingsError, read_config
from tasknorm.curves import curves
from tasknorm.data import DataError
from tasknorm.data.atomic import write_atomically
from tasknorm.data.left_out import keep_left_out, tell_left_out
from tasknorm.devices import chosen_device
from tasknorm.episode import Episode
from tasknorm.evaluate import accuracies
from tasknorm.from_settings import as_norm, check_test_tasks, learner_of, left_out, task_of
from tasknorm.learners import Learner
from tasknorm.meta_test import FINAL, alphas_of, meta_test, validation_tasks
from tasknorm.ranks import Ranks, ranks
from tasknorm.results import CONFIG, RESULT, read_record, result_text
from tasknorm.settings import Settings, parsed
from tasknorm.train import CHECKPOINTS, train
from tasknorm.weights import label, weights_of, write_weights

MACHINE = ("device", "workers", "tensorboard", "at_once")  # may differ when a run goes on
LENGTH = "iterations"  # may also differ, but not be less than what is done


def run(settings: Settings, folder: Path) -> dict[str, Any]:
    """Train, test and record one run; goes on from its newest checkpoint, and does nothing if it is finished.

    A finished run with fewer iterations goes on to more, as if it had been asked for them at first, but that the
    validation at its former end and the schedule of BRN's bounds stay.

    Returns:
        The contents of `result.json`.
    """
    device = chosen_device(settings.device)
    with ranks(device.type) as all_ranks:
        if all_ranks.same(is_finished(folder, settings.iterations) if all_ranks.first else None):
            result = read_record(folder).result
            print(f"{folder}: finished already", file=sys.stderr)
            return result
        if all_ranks.count > settings.meta_batch:
            raise SettingsError(
                f"meta_batch={settings.meta_batch} tasks cannot be shared by {all_ranks.count} processes; start fewer"
            )
        learner = learner_of(settings).to(device)
        tasks, valid_tasks = task_of(settings, "train"), validation_tasks(settings)
        if settings.validate_every and not valid_tasks:
            raise DataError(
                f"validation needs a source with valid classes, got {settings.source}; set validate_every=0, or "
                "name some in its splits file"
            )
        check_test_tasks(settings)
        if all_ranks.first:
            (folder / RESULT).unlink(missing_ok=True)  # of fewer iterations
            if not (folder / CONFIG).exists() or read_config(folder / CONFIG)[LENGTH] != settings.iterations:
                write_atomically(folder / CONFIG, (settings.model_dump_json(indent=2) + "\n").encode())
            if settings.skip_bad:
                keep_left_out(left_out(settings), folder)
                tell_left_out(left_out(settings))
        validate = partial(validation, settings=settings, episodes=valid_tasks, all_ranks=all_ranks)
        train(learner, settings, tasks, validate, folder, all_ranks)
        if all_ranks.first:
            write_weights(folder / FINAL, weights_of(learner), label(settings.learner, settings.trained_norm))
        result = {"tasknorm": version("tasknorm"), "torch": torch.__version__, "threads": torch.get_num_threads()}
        result |= curves(folder) if all_ranks.first else {}
        result |= {"alphas": alphas_of(learner), "accuracies": []}
        result |= {"left_out": [asdict(row) for row in left_out(settings)]} if settings.skip_bad else {}
        result |= meta_test(settings, folder, all_ranks) if settings.test_tasks else {}
        if all_ranks.first:
            write_atomically(folder / RESULT, result_text(result))
    return result


def is_finished(folder: Path, iterations: int) -> bool:
    """Whether a folder holds the record of a run of so many iterations."""
    return (folder / RESULT).exists() and bool(read_config(folder / CONFIG)[LENGTH] >= iterations)


def validation(
    learner: Learner, settings: Settings, episodes: Mapping[str, Callable[[int], Episode]], all_ranks: Ranks
) -> dict[str, dict[str, float]]:
    """Accuracy on the validation tasks under each norm that the weights serve, and of each source."""
    found: dict[str, dict[str, float]] = {}
    for norm in settings.tested_norms:
        model = as_norm(learner, norm, settings)
        for source, episode in episodes.items():
            table = accuracies(model, episode, settings.validation_tasks, ranks=all_ranks)
            found.setdefault(norm, {})[source] = float(table.mean(0).max())
    return found


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
    if not {"learner", LENGTH} <= set(recorded):
        raise SettingsError(f"{folder / CONFIG}: to resume, it must hold a training's settings; choose another folder")
    done = last_iteration(folder / CHECKPOINTS)
    for key in given.keys() & recorded.keys() - set(MACHINE):
        value = parsed(key, given[key])
        if value != recorded[key] and not (key == LENGTH and isinstance(value, int) and value >= done):
            raise SettingsError(
                f"{key}={value} contradicts the run in {folder}, which has {key}={recorded[key]}; leave it out"
            )
    Settings.of(recorded | given)  # refuses what is no setting
    return Settings.of(recorded | {key: value for key, value in given.items() if key in (*MACHINE, LENGTH)})
