"""What a training left in `metrics.jsonl`, as the record of a run keeps it: times, and curves of few points."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, median
from typing import Any

from tasknorm.errors import DataError, at, short
from tasknorm.settings import AS_IT_WAS
from tasknorm.training import Line, RunFolder, missing_iterations, read_metrics

POINTS = 200


def curves(folder: Path) -> dict[str, Any]:
    """Times and curves of the training in a folder.

    Returns:
        `seconds` of training, validations included, and `spent`, the two apart; `seconds_per_iteration`, the median;
        `contexts`, the mean size of a context; `curve` and `validation`, lists of equal length by name.
        All is 0 or empty where nothing was trained. `missing_iterations` lists those whose lines were lost, if any.

    Raises:
        DataError: if the metrics are damaged; names the line.
    """
    lines = read_metrics(RunFolder(folder).metrics)
    elapsed = 0.0
    for line in lines:
        elapsed += line["seconds"]
        line["elapsed"] = elapsed
    steps = [line for line in lines if "loss" in line]
    validations = [line for line in lines if "loss" not in line and AS_IT_WAS not in line]
    for line in validations:
        if set(line) != set(validations[0]):
            where = at(RunFolder(folder).metrics, f"validation of iteration {line['iteration']}")
            other = short(min(set(line) ^ set(validations[0])))
            raise DataError(f"{where}: damaged; {other} is not in all validations; restore the file")
    lost = missing_iterations(steps, int(lines[-1]["iteration"]) if lines else 0)
    found = {
        "seconds": elapsed,
        "spent": {
            "training": sum(line["seconds"] for line in steps),
            "validation": sum(line["seconds"] for line in lines if "loss" not in line),
        },
        "seconds_per_iteration": median(step["seconds"] for step in steps) if steps else 0.0,
        "contexts": mean(step["context"] for step in steps) if steps else 0.0,
        "curve": _curve(steps),
        "validation": _validation(validations),
    }
    return found | ({"missing_iterations": lost} if lost else {})


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
