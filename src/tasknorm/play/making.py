"""Makes the weights and graphs that ship with the package, from two finished runs:

    python -m tasknorm.play.making RUN_OF_TASKNORM_I RUN_OF_CBN

docs/play.md has the commands of the two trainings.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tasknorm.files import write_atomically
from tasknorm.play.models import TRAINED, WEIGHTS, embedded_learner, onnx_of
from tasknorm.settings import read_config
from tasknorm.training import RunFolder, label, read_metrics, read_weights, write_weights

SETTINGS = ("iterations", "filters", "sampling", "max_way", "max_context", "rotate", "learning_rate", "seed", "alpha")


def make(runs: dict[str, Path], folder: Path = WEIGHTS) -> None:
    """Write weights, graphs and `about.json` to a folder.

    Args:
        runs: folders of finished runs of ProtoNets on glyphs, by the norm that they trained.
        folder: where to write.
    """
    folder.mkdir(parents=True, exist_ok=True)
    accuracies: dict[str, Any] = {}
    for norm, run in runs.items():
        weights = read_weights(RunFolder(run).best(norm, norm), label("protonets", norm))
        write_weights(folder / f"{norm}.safetensors", weights, label("protonets", norm))
        accuracies |= _validation(run, norm)
    for norm in TRAINED:
        write_atomically(folder / f"{norm}.onnx", onnx_of(embedded_learner(norm, folder)))
    config = read_config(RunFolder(next(iter(runs.values()))).config)
    words = "ProtoNets on Conv-4, trained on printed characters of 26 scripts that were drawn with jitter."
    about = {
        "words": words,
        "validation_accuracy": accuracies,
        "settings": {key: config[key] for key in SETTINGS},
    }
    write_atomically(folder / "about.json", (json.dumps(about, indent=2) + "\n").encode())


def _validation(run: Path, norm: str) -> dict[str, float]:
    """Accuracies on the validation tasks, by norm, when the weights were best for the norm that was trained."""
    lines = [line for line in read_metrics(RunFolder(run).metrics) if f"validation/{norm}" in line]
    best = max(lines, key=lambda line: line[f"validation/{norm}"])
    return {each: round(best[f"validation/{each}"], 4) for each in TRAINED if f"validation/{each}" in best}


if __name__ == "__main__":
    make(dict(zip(("TaskNorm-I", "CBN"), map(Path, sys.argv[1:3]), strict=True)))
