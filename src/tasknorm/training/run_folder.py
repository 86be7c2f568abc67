"""The folder of a run: the name of every file in it, for trainings and pretrainings alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunFolder:
    """The files of one run.

    Args:
        path: the folder's path; it need not exist yet.
    """

    path: Path

    @property
    def config(self) -> Path:
        """The run's settings."""
        return self.path / "config.json"

    @property
    def result(self) -> Path:
        """The record of a finished training."""
        return self.path / "result.json"

    @property
    def calibration(self) -> Path:
        """What predictors of the run need: its preparation of images, temperatures and thresholds."""
        return self.path / "calibration.json"

    @property
    def pretraining(self) -> Path:
        """The record of a finished pretraining."""
        return self.path / "pretraining.json"

    @property
    def metrics(self) -> Path:
        """A line of JSON for each iteration and each validation."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of the last two checkpoints."""
        return self.path / "checkpoints"

    @property
    def final(self) -> Path:
        """The weights after the last iteration."""
        return self.path / "model.safetensors"

    @property
    def extractor(self) -> Path:
        """The weights that a pretraining made."""
        return self.path / "extractor.safetensors"

    @property
    def left_out(self) -> Path:
        """The images and classes that the run does without, if it was asked to skip bad ones."""
        return self.path / "left_out.json"

    @property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard's events."""
        return self.path / "tensorboard"

    @property
    def log(self) -> Path:
        """What the run printed, if a grid started it."""
        return self.path / "log.txt"

    def best(self, norm: str, own: str) -> Path:
        """The weights that did best on validation under a norm; `own` is the norm that the run is named by."""
        return self.path / ("best.safetensors" if norm == own else f"best-{norm}.safetensors")

    @property
    def in_use(self) -> bool:
        """Whether the folder holds anything; hidden files do not count."""
        return bool(self.visible())

    def visible(self) -> list[Path]:
        """What the folder holds, without hidden files; nothing if it does not exist."""
        return [path for path in self.path.iterdir() if not path.name.startswith(".")] if self.path.exists() else []
