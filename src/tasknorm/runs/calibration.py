"""What predictors of a run need to know, kept in its folder: how images are prepared, temperatures and thresholds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from tasknorm.data import Preparation
from tasknorm.episode import Targets
from tasknorm.errors import DataError
from tasknorm.evaluation import predictions
from tasknorm.files import write_atomically
from tasknorm.learners import Calibration, accuracy
from tasknorm.machine import LARGEST_TEXT, read_regular
from tasknorm.norms import Norm
from tasknorm.runs.meta_test import loaded, validation_tasks, weights_file
from tasknorm.runs.parts import channels_of, opened_once
from tasknorm.settings import Settings
from tasknorm.training import RunFolder


class OfNorm(BaseModel):
    """The calibration of a run's best weights under one norm.

    Args:
        weights: SHA-256 of the file of weights.
        step: the inner step with the best accuracy on the validation tasks; None for learners without steps.
        example: for targets that come one at a time.
        all: for targets that come all at once; the same unless the norm is transductive.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    weights: str
    step: int | None
    example: Calibration
    all: Calibration


class RunCalibration(BaseModel):
    """The contents of `calibration.json`.

    Args:
        tasknorm: the version that wrote it.
        preparation: what happens to images before the run's net sees them.
        norms: by label; none where there are no validation tasks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal[1] = 1
    tasknorm: str
    preparation: Preparation
    norms: dict[str, OfNorm]


def keep_calibration(settings: Settings, files: RunFolder, norms: Sequence[str]) -> RunCalibration:
    """Calibrate a run's best weights under some norms on its validation tasks, and keep that in its folder.

    Raises:
        DataError: if the run's data are not there.
    """
    source, channels = opened_once(settings.sources[0]), channels_of(settings)
    preparation = Preparation.of(source, settings.image_size, channels, settings.scale, settings.resize)
    before = read_calibration(files)
    found = {} if before is None else dict(before.norms)
    for norm in norms:
        found |= _calibrated(settings, files, norm)
    made = RunCalibration(tasknorm=version("tasknorm"), preparation=preparation, norms=found)
    with suppress(OSError):  # a folder that cannot be written to serves all the same
        write_atomically(files.calibration, (made.model_dump_json(indent=1) + "\n").encode())
    return made


def read_calibration(files: RunFolder) -> RunCalibration | None:
    """What the folder keeps; None if there is nothing, or it is damaged."""
    try:
        return RunCalibration.model_validate_json(read_regular(files.calibration, LARGEST_TEXT))
    except (OSError, ValidationError):
        return None


def calibration_of(settings: Settings, files: RunFolder, norm: str) -> tuple[Preparation, OfNorm | None]:
    """How the run prepares images, and the calibration of its best weights under a norm, made now if need be.

    Returns:
        No calibration if the run has no validation tasks, or its data are gone.

    Raises:
        DataError: if the folder does not keep how images are prepared, and the run's data are not there.
    """
    kept = read_calibration(files)
    if kept is not None and (of_norm := kept.norms.get(norm)) and of_norm.weights == _digest(settings, files, norm):
        return kept.preparation, of_norm
    if kept is not None and not settings.validation_tasks:
        return kept.preparation, None
    try:
        made = keep_calibration(settings, files, [norm])
        return made.preparation, made.norms.get(norm)
    except DataError as error:
        if kept is None:
            raise DataError(f"{files.path}: how the run's images are prepared follows from its data; {error}") from None
        return kept.preparation, None


def _calibrated(settings: Settings, files: RunFolder, norm: str) -> dict[str, OfNorm]:
    """The calibration by the norm's label; nothing if there are no validation tasks."""
    if not (tasks := validation_tasks(settings)):
        return {}
    learner = loaded(settings, weights_file(settings, files, norm), norm)
    fixed = settings.sampling == "fixed"
    about = {"way": settings.way, "shot": settings.shot} if fixed else {}

    def outcome(targets: Targets) -> list[tuple[Tensor, Tensor]]:
        share = range(settings.validation_tasks)
        return [
            (labels, logits)
            for each in tasks.values()
            for _, labels, logits in predictions(learner, each, share, targets)
        ]

    all_at_once = outcome("all")
    step = _best_step(all_at_once) if learner.has_steps else None

    def calibration(found: list[tuple[Tensor, Tensor]]) -> Calibration:
        made = Calibration.on([logits[(step or 1) - 1] for _, logits in found], [labels for labels, _ in found])
        return made.model_copy(update=about)

    together = calibration(all_at_once)
    peeks = any(module.transductive for module in learner.target_net.modules() if isinstance(module, Norm))
    apart = calibration(outcome("example")) if peeks else together
    return {norm: OfNorm(weights=_digest(settings, files, norm), step=step, example=apart, all=together)}


def _best_step(found: list[tuple[Tensor, Tensor]]) -> int:
    """The step with the best accuracy, from 1."""
    table = [[accuracy(scores, labels) for scores in logits] for labels, logits in found]
    return 1 + int(torch.tensor(table, dtype=torch.float64).mean(0).argmax())


def _digest(settings: Settings, files: RunFolder, norm: str) -> str:
    with weights_file(settings, files, norm).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
