"""A training in its folder: train, test, and what stays of it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from statistics import mean, median
from typing import Any

import torch

from tasknorm.data import keep_left_out, tell_left_out
from tasknorm.errors import DataError, SettingsError
from tasknorm.files import alone, check_free, write_atomically
from tasknorm.learners import Learner
from tasknorm.machine import Processes, chosen_device, connected
from tasknorm.nets import is_backbone
from tasknorm.norms import NORMS
from tasknorm.runs.calibration import keep_calibration
from tasknorm.runs.candidates import as_it_was, chosen, validation_accuracies
from tasknorm.runs.curves import curves
from tasknorm.runs.meta_test import alphas_of, meta_test, validation_tasks
from tasknorm.runs.network import tell_unconverted
from tasknorm.runs.parts import Tasks, as_norm, check_test_tasks, learner_of, left_out, task_of
from tasknorm.runs.record import read_record, read_result, result_text
from tasknorm.runs.run import Run
from tasknorm.runs.speed import Speed
from tasknorm.settings import Settings, read_config
from tasknorm.training import (
    check_resumable,
    label,
    last_iteration,
    last_metrics,
    load_into,
    read_weights,
    train,
    weights_of,
    write_weights,
)

TIMED, TESTED = 4, 3  # iterations and tasks of a run that is only timed
WORTH_TIMING = 20  # iterations, at least
# Runs of a kind differ in these alone, which hardly matter for their speed.
ALIKE = {"norm", "alpha", "seed", "iterations", "pretrained", "learning_rate", "checkpoint_every", "validate_every"}
ALIKE |= {"validation_tasks", "test_tasks", "test_seed", "fold", "halve_every", "regulariser"}


class TrainingRun(Run[Settings]):
    """The meta-training and the test of a learner (see `Run`)."""

    verb = "train"
    name = "training"

    def finished(self) -> bool:
        """Whether the folder holds the record of so many iterations; a damaged record is made again."""
        if not self.files.result.exists() or self._damage() is not None:
            return False
        return bool(read_config(self.files.config)["iterations"] >= self.settings.iterations)

    def done(self) -> int:
        """Iterations that it has behind it."""
        if self.finished():
            return self.settings.iterations
        lines = last_metrics(self.files.metrics)
        return min(self.settings.iterations, int(lines[-1]["iteration"])) if lines else 0

    def _damage(self) -> str | None:
        """What is wrong with the record, if anything."""
        try:
            read_result(self.files)
        except SettingsError as error:
            return str(error)
        return None

    def do(self) -> dict[str, Any]:
        """Train, test and record, from the newest checkpoint; do nothing if the run is finished.

        A finished run with fewer iterations continues to more, as if it had been asked for them at first. Two things
        stay as they were: the validation at its former end, and the schedule of BRN's bounds.

        Returns:
            The contents of `result.json`.

        Raises:
            SettingsError: if another process is writing to the folder.
            WeightsError, DataError: if what it would resume from is damaged; nothing is changed then.
        """
        device = chosen_device(self.settings.device)
        with connected(device.type) as processes:
            if processes.first:
                check_free(self.files.path)
            if processes.same(self.finished() if processes.first else None):
                result = read_record(self.files.path).result
                print(f"{self.files.path}: finished already", file=sys.stderr)
                return result
            return self._done_by(processes, device)

    def _done_by(self, processes: Processes, device: torch.device) -> dict[str, Any]:
        settings, files = self.settings, self.files
        if processes.count > settings.meta_batch:
            raise SettingsError(
                f"meta_batch={settings.meta_batch} tasks cannot be shared by {processes.count} processes; start fewer"
            )
        learner = learner_of(settings).to(device)
        if processes.first:
            tell_unconverted(learner, settings)
        tasks, valid_tasks = task_of(settings, "train"), validation_tasks(settings)
        if settings.validate_every and not valid_tasks:
            raise DataError(
                f"validation needs a source with valid classes, got {settings.source}; set validate_every=0, or "
                "name some in its splits file"
            )
        check_test_tasks(settings)
        with alone(files.path) if processes.first else nullcontext():
            return self._trained_and_tested(processes, learner, tasks, valid_tasks)

    def _trained_and_tested(
        self, processes: Processes, learner: Learner, tasks: Tasks, valid_tasks: Mapping[str, Tasks]
    ) -> dict[str, Any]:
        """Write the run's folder: config, checkpoints, weights and record."""
        settings, files = self.settings, self.files
        if processes.first:
            check_resumable(settings, files.path)
            if files.result.exists() and (damage := self._damage()):
                print(f"{damage.split(';')[0]}; testing the run's weights again", file=sys.stderr)
            for outdated in (files.result, files.calibration):  # of fewer iterations
                outdated.unlink(missing_ok=True)
            self.write_config()
            if settings.skip_bad:
                keep_left_out(left_out(settings), files.left_out)
                tell_left_out(left_out(settings))
        validate = partial(validation, settings=settings, episodes=valid_tasks, processes=processes)
        untouched = partial(as_it_was, settings, valid_tasks, processes) if settings.as_it_was else None
        if processes.same(self._has_only_its_weights() if processes.first else None):
            about = label(settings.learner, settings.trained_norm)
            weights = processes.same(read_weights(files.final, about) if processes.first else None)
            load_into(learner, weights, files.final)
            threads = [torch.get_num_threads()]
        else:
            threads = train(learner, settings, tasks, validate, files.path, processes, untouched)
        if processes.first:
            write_weights(files.final, weights_of(learner), label(settings.learner, settings.trained_norm))
        result: dict[str, Any] = {"tasknorm": version("tasknorm"), "torch": torch.__version__, "threads": threads}
        result |= curves(files.path) if processes.first else {}
        if settings.as_it_was and processes.first:
            result |= {"chosen": chosen(settings, files, result["validation"])}
        result |= {"alphas": alphas_of(learner), "accuracies": []}
        result |= {"left_out": [asdict(row) for row in left_out(settings)]} if settings.skip_bad else {}
        if settings.test_tasks:
            tested = meta_test(settings, files.path, processes)
            result |= tested | {"spent": result.get("spent", {}) | tested["spent"]}
        if processes.first:
            if settings.test_tasks:
                keep_calibration(settings, files, settings.tested_norms)
            write_atomically(files.result, result_text(result))
        return result

    def _has_only_its_weights(self) -> bool:
        """Whether the training is done, and its checkpoints were removed."""
        lines = last_metrics(self.files.metrics)
        done = bool(lines) and lines[-1]["iteration"] >= self.settings.iterations
        return done and self.files.final.exists() and not last_iteration(self.files.checkpoints)

    def speed(self) -> Speed | None:
        """From its metrics and, if it is finished, its record."""
        steps = [line["seconds"] for line in last_metrics(self.files.metrics)]
        result = read_result(self.files) if self.files.result.exists() and self._damage() is None else {}
        iteration = result.get("seconds_per_iteration") or (median(steps) if len(steps) >= TIMED else None)
        if iteration is None:
            return None
        task = mean(result.get("seconds_per_test_task", {}).values() or [0.0])
        if not result or not self.files.final.exists():
            return Speed(iteration, task, task)
        recorded = Settings.of(read_config(self.files.config))
        seconds = self.files.result.stat().st_mtime - self.files.final.stat().st_mtime
        seconds -= (_steps_chosen(recorded) + _calibrated(recorded)) * task
        tests = recorded.test_tasks * _tested(recorded)
        return Speed(iteration, task, max(task, seconds / tests) if tests else task)

    def seconds(self, speed: Speed) -> float:
        """Estimated seconds of training, validations and the test."""
        settings = self.settings
        tasks = _steps_chosen(settings) + _calibrated(settings)
        if settings.validate_every:
            rounds = (settings.iterations // settings.validate_every + 2 * settings.as_it_was) * len(settings.sources)
            tasks += rounds * settings.validation_tasks * len(settings.tested_norms)
        tests = settings.test_tasks * _tested(settings)
        return settings.iterations * speed.iteration + tasks * speed.task + tests * speed.test

    def kind(self) -> str:
        """What an iteration's speed depends on."""
        alike = ALIKE | set(self.settings.machine)
        values = {key: value for key, value in self.settings.values().items() if key not in alike}
        return f"{self.settings.learner}-{hashlib.sha256(json.dumps(values).encode()).hexdigest()[:8]}"

    def shortened(self) -> Settings | None:
        """A few iterations and test tasks, without pretrained weights."""
        if self.settings.iterations < WORTH_TIMING:
            return None
        changes: dict[str, Any] = {"iterations": TIMED, "validate_every": 0, "as_it_was": False}
        changes |= {"test_tasks": TESTED, "validation_tasks": TESTED, "test_weights": "final"}
        if not is_backbone(self.settings.net):
            changes |= {"pretrained": None, "norm_start": "paper", "running": "moving", "tuned": "all"}
            if self.settings.norm == "Baseline":  # needs pretrained moments
                changes["norm"] = "IN"
        return self.settings.model_copy(update=changes)


def validation(
    learner: Learner, settings: Settings, episodes: Mapping[str, Tasks], processes: Processes
) -> dict[str, dict[str, float]]:
    """Accuracy on the validation tasks under each norm that the weights serve, and of each source."""
    found: dict[str, dict[str, float]] = {}
    for norm in settings.tested_norms:
        found[norm] = validation_accuracies(as_norm(learner, norm, settings), settings, episodes, processes)
    return found


def _tested(settings: Settings) -> int:
    """How often a test task is done: for each norm and for the final or best weights, or both."""
    return len(settings.tested_norms) * len(settings.tested_weights)


def _steps_chosen(settings: Settings) -> int:
    """Validation tasks on which a learner's step is chosen before a test."""
    return settings.validation_tasks * _tested(settings) if settings.kind.has_steps and settings.test_tasks else 0


def _calibrated(settings: Settings) -> int:
    """Validation tasks on which the probabilities of predictors are calibrated; twice under a transductive norm."""
    passes = sum(2 if NORMS[norm].transductive else 1 for norm in settings.tested_norms)
    return settings.validation_tasks * len(settings.sources) * passes if settings.test_tasks else 0
