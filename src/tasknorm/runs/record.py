"""The record of a run: its settings and what came out, from which tables, figures and claims are made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tasknorm.episode import Targets
from tasknorm.errors import SettingsError
from tasknorm.evaluation.evaluation import Evaluation, Mean
from tasknorm.settings.config import read_config
from tasknorm.settings.training import Settings

CONFIG, RESULT = "config.json", "result.json"


@dataclass(frozen=True)
class Accuracy:
    """One row of a run's test.

    Args:
        weights: "final", or "best" by validation.
        norm: under which the weights were tested.
        source: of the test tasks.
        way, shot: of the test tasks; None if they vary.
        targets: how they came.
        tasks: how many.
        label: "transductive" or "non-transductive".
        accuracy: mean over tasks, in [0, 1]; for MAML, after `step`.
        interval: half the width of its 95 % interval.
        step: MAML's inner step, chosen on validation tasks.
        maximum: MAML's best step, chosen on these very tasks, as in the TaskNorm paper.
        steps: MAML's accuracy after each step.
    """

    weights: str
    norm: str
    source: str
    way: int | None
    shot: int | None
    targets: Targets
    tasks: int
    label: str
    accuracy: float
    interval: float
    step: int | None = None
    maximum: Mean | None = None
    steps: tuple[Mean, ...] = ()

    @classmethod
    def of(
        cls, found: Evaluation, *, weights: str, norm: str, source: str, way: int | None, shot: int | None
    ) -> Accuracy:
        """From an evaluation and what was evaluated."""
        told = (found.targets, found.tasks, found.label, found.mean.accuracy, found.mean.interval)
        if not found.steps:
            return cls(weights, norm, source, way, shot, *told)
        return cls(weights, norm, source, way, shot, *told, found.step, found.maximum, found.steps)

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> Accuracy:
        """From a row as JSON has it."""
        if "steps" not in row:
            return cls(**row)
        return cls(**row | {"maximum": Mean(**row["maximum"]), "steps": tuple(Mean(**mean) for mean in row["steps"])})

    def row(self) -> dict[str, Any]:
        """As JSON has it: what only MAML has is left out for others."""
        values = asdict(self) | {"steps": [asdict(mean) for mean in self.steps]}
        return values if self.steps else {name: values[name] for name in values if name not in MAML}

    def __str__(self) -> str:
        shape = "" if self.way is None else f" {self.way}-way {self.shot}-shot"
        step = "" if self.step is None else f" after step {self.step}"
        words = f"{self.weights:6}{self.norm:11} {self.source}{shape}, targets: {self.targets:8}"
        return f"{words} {Mean(self.accuracy, self.interval)}{step}, {self.tasks} tasks, {self.label}"


MAML = ("step", "maximum", "steps")
NEEDED = ("seconds", "seconds_per_iteration", "contexts", "curve", "validation", "alphas")


@dataclass(frozen=True)
class Record:
    """One finished run.

    Args:
        folder: of the run.
        settings: of the run.
        result: the contents of `result.json`.
    """

    folder: Path
    settings: Settings
    result: dict[str, Any]

    def accuracies(self) -> list[Accuracy]:
        """Every row of the run's test."""
        return [Accuracy.of_row(row) for row in self.result["accuracies"]]


def read_record(folder: Path) -> Record:
    """The record of the finished run in a folder.

    Raises:
        SettingsError: if there is none, or one that cannot be read.
    """
    for name in (CONFIG, RESULT):
        if not (folder / name).is_file():
            raise SettingsError(f"{folder}: the folder of a finished run holds {CONFIG} and {RESULT}, got no {name}")
    try:
        result = read_config(folder / RESULT)
    except SettingsError:
        raise SettingsError(f"{folder / RESULT}: a result is JSON, and this is damaged; run it again") from None
    if not isinstance(result.get("accuracies"), list):
        raise SettingsError(f"{folder / RESULT}: a result holds a list of accuracies, got none; run it again")
    if missing := [key for key in NEEDED if key not in result]:
        raise SettingsError(f"{folder / RESULT}: a result holds {', '.join(NEEDED)}, got no {missing[0]}; run it again")
    try:
        TypeAdapter(list[Accuracy]).validate_json(json.dumps(result["accuracies"]), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{folder / RESULT}: accuracies.{place}: {first['msg']}; run it again") from None
    config = read_config(folder / CONFIG)
    if "learner" not in config:
        raise SettingsError(f"{folder / CONFIG}: a run's settings name its learner, got none; run it again")
    try:
        return Record(folder, Settings.of(config), result)
    except SettingsError as error:
        raise SettingsError(f"{folder / CONFIG}: {error}") from None


def records(*folders: Path) -> list[Record]:
    """The records of all finished runs in or below some folders, by path; hidden folders are left out."""
    found = {
        path.parent
        for folder in folders
        for path in folder.rglob(RESULT)
        if (path.parent / CONFIG).is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    }
    return [read_record(folder) for folder in sorted(found)]


def result_text(result: dict[str, Any]) -> bytes:
    """What `result.json` holds."""
    return (json.dumps(result, indent=1) + "\n").encode()
