"""What a training left in `metrics.jsonl`, as the record of a run keeps it: times, and curves of few points."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, median
from typing import Any

from tasknorm.training import RunFolder

POINTS = 200
Line = dict[str, float]


def curves(folder: Path) -> dict[str, Any]:
    """Times and curves of the training in a folder.

    Returns:
        `seconds` of training, validations included; `seconds_per_iteration`, the median; `contexts`, the mean size of
        a context; `curve` and `validation`, lists of equal length by name. All is 0 or empty where nothing was trained.
    """
    path = RunFolder(folder).metrics
    lines: list[Line] = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    elapsed = 0.0
    for line in lines:
        elapsed += line["seconds"]
        line["elapsed"] = elapsed
    steps = [line for line in lines if "loss" in line]
    return {
        "seconds": elapsed,
        "seconds_per_iteration": median(step["seconds"] for step in steps) if steps else 0.0,
        "contexts": mean(step["context"] for step in steps) if steps else 0.0,
        "curve": _curve(steps),
        "validation": _validation([line for line in lines if "loss" not in line]),
    }


def _curve(steps: list[Line]) -> dict[str, list[float]]:
    """Means over at most 200 windows of equal length, the last of which may be shorter."""
    size = max(1, -(-len(steps) // POINTS))
    windows = [steps[start : start + size] for start in range(0, len(steps), size)]
    return {
        "iteration": [window[-1]["iteration"] for window in windows],
        "loss": [mean(step["loss"] for step in window) for window in windows],
        "accuracy": [mean(step["accuracy"] for step in window) for window in windows],
        "seconds": [window[-1]["elapsed"] for window in windows],
    }


def _validation(lines: list[Line]) -> dict[str, Any]:
    """Accuracies by norm; with several sources their means, and beside them those of each source."""
    accuracy: dict[str, list[float]] = {}
    sources: dict[str, dict[str, list[float]]] = {}
    for name in (name for name in (lines[0] if lines else {}) if name.startswith("validation/")):
        norm, *source = name.split("/", 2)[1:]
        place = sources.setdefault(norm, {}) if source else accuracy
        place[source[0] if source else norm] = [line[name] for line in lines]
    found = {
        "iteration": [line["iteration"] for line in lines],
        "seconds": [line["elapsed"] for line in lines],
        "accuracy": accuracy,
    }
    return found | ({"sources": sources} if sources else {})


def last_metrics(folder: Path, size: int = 1 << 16) -> list[dict[str, Any]]:
    """The last whole lines of a run's `metrics.jsonl`."""
    path = RunFolder(folder).metrics
    if not path.exists():
        return []
    with path.open("rb") as file:
        start = max(0, path.stat().st_size - size)
        file.seek(start)
        lines = file.read().split(b"\n")
    return [json.loads(line) for line in lines[1 if start else 0 : -1]]
