"""The record of a run: its settings and what came out, from which tables, figures and claims are made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tasknorm.episode import Targets
from tasknorm.errors import SettingsError, at, one_line, reason
from tasknorm.evaluation import Accuracy, Evaluation
from tasknorm.machine import LARGEST_TEXT, parsed_json, read_regular
from tasknorm.runs.schema import ResultFile
from tasknorm.settings import AS_IT_WAS, START, Settings, read_config
from tasknorm.training import RunFolder


@dataclass(frozen=True)
class Result:
    """One line of a run's test: what was tested, and its accuracy.

    Args:
        weights: "final", or "best" by validation; of a pretrained network also "as it was", or "start", the norm
            before its training.
        norm: the norm under which the weights were tested.
        source: where the test tasks came from.
        way, shot: classes of a test task, and context images of each; None if they vary.
        targets: how they came.
        tasks: the number of tasks.
        label: "transductive" or "non-transductive".
        accuracy: over the tasks; of a learner with steps, after `step`.
        step: the inner step, chosen on validation tasks.
        steps: the accuracy after each step.
        candidate: of a tuning, which candidate the weights are: "as it was", "start" or "iteration 40".
        gain: the difference from the network as it was on the same tasks, if that was tested.
    """

    weights: str
    norm: str
    source: str
    way: int | None
    shot: int | None
    targets: Targets
    tasks: int
    label: str
    accuracy: Accuracy
    step: int | None = None
    steps: tuple[Accuracy, ...] = ()
    candidate: str | None = None
    gain: Accuracy | None = None

    @classmethod
    def of(
        cls, found: Evaluation, *, weights: str, norm: str, source: str, way: int | None, shot: int | None
    ) -> Result:
        """The line of an evaluation and of what was evaluated."""
        told = (found.targets, found.tasks, found.label, found.accuracy, found.step, found.steps)
        return cls(weights, norm, source, way, shot, *told)

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> Result:
        """The line from a row of `result.json`."""
        values = {name: row[name] for name in row if name not in ("interval", "maximum", "gain")}
        values["accuracy"] = Accuracy(row["accuracy"], row["interval"])
        values["steps"] = tuple(Accuracy(each["accuracy"], each["interval"]) for each in row.get("steps", ()))
        if (gain := row.get("gain")) is not None:
            values["gain"] = Accuracy(gain["difference"], gain["interval"])
        return cls(**values)

    @property
    def maximum(self) -> Accuracy:
        """After the best step, chosen on these very tasks, as in the TaskNorm paper; else the accuracy."""
        return max(self.steps, key=lambda step: step.mean, default=self.accuracy)

    def row(self) -> dict[str, Any]:
        """The row of `result.json`; without steps for a learner that has none."""
        about = ("weights", "norm", "source", "way", "shot", "targets", "tasks", "label")
        values = {name: getattr(self, name) for name in about} | _flat(self.accuracy)
        if self.candidate is not None:
            values["candidate"] = self.candidate
        if self.gain is not None:
            values["gain"] = {"difference": self.gain.mean, "interval": self.gain.interval}
        if not self.steps:
            return values
        return values | {"step": self.step, "maximum": _flat(self.maximum), "steps": [*map(_flat, self.steps)]}

    def __str__(self) -> str:
        shape = "" if self.way is None else f" {self.way}-way {self.shot}-shot"
        step = "" if self.step is None else f" after step {self.step}"
        weights = f"{self.weights:{6 if self.candidate is None else 10}}"
        words = f"{weights}{self.norm:11} {self.source}{shape}, targets: {self.targets:8}"
        words = f"{words} {self.accuracy} %{step}, {self.tasks} tasks, {self.label}"
        if self.gain is not None and self.weights != AS_IT_WAS:
            words += f"; {self.gain.percent:+.1f} ± {100 * self.gain.interval:.1f} against as it was"
        return f"{words}; chosen: {self.candidate}" if self.candidate and self.weights == "best" else words


def _flat(accuracy: Accuracy) -> dict[str, float]:
    return {"accuracy": accuracy.mean, "interval": accuracy.interval}


@dataclass(frozen=True)
class Record:
    """One finished run.

    Args:
        folder: the run's folder.
        settings: the run's settings.
        result: the contents of `result.json`.
    """

    folder: Path
    settings: Settings
    result: dict[str, Any]

    @cached_property
    def results(self) -> list[Result]:
        """Every line of the run's test."""
        return [Result.of_row(row) for row in self.result["accuracies"]]

    def chosen(self) -> list[Result]:
        """The lines of the weights that did best on validation; of the final ones where nothing was validated."""
        best = [result for result in self.results if result.weights == "best"]
        return best or [result for result in self.results if result.weights not in (AS_IT_WAS, START)]


def read_record(folder: Path | str) -> Record:
    """The record of the finished training in a folder.

    Raises:
        SettingsError: if there is none, or one that cannot be read.
    """
    folder = Path(folder)
    files = RunFolder(folder)
    for path in (files.config, files.result):
        if not path.is_file():
            raise SettingsError(
                f"{at(folder)}: no finished training in this folder (no {path.name}); finish it, or correct the path"
            )
    result = read_result(files)
    config = read_config(files.config)
    if "learner" not in config:
        raise SettingsError(f"{at(files.config)}: not the config file of a training: it names no learner; restore it")
    try:
        return Record(folder, Settings.of(config), result)
    except SettingsError as error:
        raise SettingsError(f"{at(files.config)}: {error}") from None


def read_result(files: RunFolder) -> dict[str, Any]:
    """The contents of a run's `result.json`.

    Raises:
        SettingsError: if it is damaged.
    """
    try:
        text = read_regular(files.result, LARGEST_TEXT)
        ResultFile.model_validate_json(text)
        result: dict[str, Any] = parsed_json(text)
        return result
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{at(files.result)}: damaged ({_first(error)}); `tasknorm train --out {files.path} --resume` tests the "
            "run's weights again and writes it anew"
        ) from None


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return reason(error)
    first = error.errors()[0]
    place = one_line(".".join(map(str, first["loc"])))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def records(*folders: Path) -> list[Record]:
    """The records of all finished trainings in or below some folders, by path; hidden folders are left out."""
    name = RunFolder(Path()).result.name
    found = {
        path.parent
        for folder in folders
        for path in folder.rglob(name)
        if RunFolder(path.parent).config.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }
    return [read_record(folder) for folder in sorted(found)]


def result_text(result: dict[str, Any]) -> bytes:
    """What `result.json` holds."""
    return (json.dumps(result, indent=1) + "\n").encode()
