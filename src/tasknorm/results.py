"""The record of a finished run: its settings and what came out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasknorm.settings import Settings


@dataclass(frozen=True)
class Accuracy:
    weights: str
    norm: str
    source: str
    way: int | None
    shot: int | None
    targets: str
    tasks: int
    label: str
    accuracy: float
    interval: float
    step: int | None = None
    maximum: dict[str, float] | None = None
    steps: list[dict[str, float]] | None = None


@dataclass(frozen=True)
class Record:
    folder: Path
    settings: Settings
    result: dict[str, Any]

    def accuracies(self) -> list[Accuracy]:
        return [Accuracy(**row) for row in self.result["accuracies"]]


def read_record(folder: Path) -> Record:
    config = json.loads((folder / "config.json").read_text())
    return Record(folder, Settings(**config), json.loads((folder / "result.json").read_text()))


def records(*folders: Path) -> list[Record]:
    found = {p.parent for folder in folders for p in folder.rglob("result.json") if (p.parent / "config.json").exists()}
    return [read_record(folder) for folder in sorted(found)]
