"""Kill runs with SIGKILL at random moments, resume them, and compare them with runs that were never killed.

    python benchmarks/kills.py --kills 100 --json

Every command runs in a process of its own, with the number of threads that a shell without thread variables gives it.
Equal must be weights, metrics, accuracies and tables, to the bit; times may differ. After each kill every file must be
whole. Exit code 1 if anything was lost, torn or different.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from PIL import Image

# All that a command imports, so that the processes, which are forked, begin with their work at once.
import tasknorm.cli.compare
import tasknorm.cli.pretrain
import tasknorm.cli.report
import tasknorm.cli.train  # noqa: F401
from tasknorm.cli import app
from tasknorm.files import TEMPORARY
from tasknorm.training import RunFolder, last_iteration

TRAIN = (
    "train --resume --learner protonets --norm CBN --filters 4 --image-size 16 --way 3 --train-way 3 --shot 1"
    " --meta-batch 2 --targets 2 --train-targets 2 --validation-tasks 2 --device cpu"
)
PRETRAIN = "pretrain --resume --net resnet-small --image-size 16 --batch 128 --crop 2 --epochs 3 --device cpu"
COMPARE = "compare --learner protonets --norms LN,TaskNorm-I --iterations 5 --tasks 2"


@dataclass
class Stage:
    """Something to kill.

    Args:
        words: the command, for a folder; given again, it resumes.
        before: what to put into a fresh folder.
        moment: when kills may come, from what the folder holds; any time if left out.
        variables: of the environment, for a folder.
        latest: when to begin to look for the moment, as a share of the time that the command takes.
    """

    words: Callable[[Path], str]
    before: Callable[[Path], object] = lambda folder: None
    moment: Callable[[Path], bool] = lambda folder: True
    variables: Callable[[Path], dict[str, str]] = lambda folder: {}
    latest: float = 0.6


@dataclass(frozen=True)
class Reference:
    """A stage that was never killed: what came out, how long it took, and the moments to kill others at."""

    outcome: dict[str, Any]
    seconds: float
    moments: random.Random


@dataclass
class Figures:
    """Kills by stage, and what they did harm to."""

    kills: dict[str, int] = field(default_factory=dict)
    resumed_to_the_end: int = 0
    lost: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        """Whether anything went wrong."""
        return bool(self.lost or self.torn or self.different or self.left_over)


def stages(place: Path) -> dict[str, Stage]:
    """All stages; `place` holds images, and reference runs when it is their turn."""
    images, runs = place / "images", place / "reference"

    def finished_training(folder: Path) -> None:
        shutil.copytree(runs / "training" / "run", folder / "run")
        (folder / "run" / "result.json").unlink()

    def old_report(folder: Path) -> None:
        run([*f"report {runs / 'training'} --out {folder / 'report'}".split()], folder)

    return {
        "training": Stage(
            lambda f: (
                f"{TRAIN} --source folder:{images} --iterations 16 --validate-every 8 --checkpoint-every 3"
                f" --test-tasks 8 --out {f / 'run'}"
            )
        ),
        "checkpointing": Stage(
            lambda f: (
                f"{TRAIN} --source folder:{images} --iterations 10 --validate-every 0 --checkpoint-every 1"
                f" --test-tasks 1 --out {f / 'run'}"
            ),
            moment=lambda f: any((f / "run" / "checkpoints").glob(".*.part")),
        ),
        "evaluation": Stage(
            lambda f: f"train --resume --out {f / 'run'}",
            finished_training,
            moment=lambda f: not (f / "run" / "result.json").exists(),
        ),
        "reporting": Stage(
            lambda f: f"report {runs / 'training'} {runs / 'checkpointing'} --out {f / 'report'}",
            old_report,
            moment=lambda f: any(f.glob(".report.*.part")),
            latest=0.0,
        ),
        "caching": Stage(
            lambda f: (
                f"{TRAIN} --source folder:{images} --iterations 2 --validate-every 0 --test-tasks 1 --out {f / 'run'}"
            ),
            moment=lambda f: any((f / "cache").glob(".*.part")),
            variables=lambda f: {"TASKNORM_CACHE": str(f / "cache")},
            latest=0.0,
        ),
        "pretraining": Stage(lambda f: f"{PRETRAIN} --source folder:{images} --out {f / 'run'}"),
        "comparison": Stage(lambda f: f"{COMPARE} --out {f / 'run'}", moment=lambda f: (f / "run").exists()),
    }


def started(words: list[str], folder: Path, variables: dict[str, str] | None = None) -> int:
    """A command in a process of its own, which writes to `log.txt` in the folder."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setsid()
        os.environ |= variables or {}
        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        app(words, prog_name="tasknorm")
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(words: list[str], folder: Path, variables: dict[str, str] | None = None) -> float:
    """Do a command to its end: its seconds."""
    began = time.monotonic()
    _, status = os.waitpid(started(words, folder, variables), 0)
    if status:
        raise SystemExit(f"{' '.join(words)}: failed\n{(folder / 'log.txt').read_text()[-2000:]}")
    return time.monotonic() - began


def killed(stage: Stage, folder: Path, longest: float, moments: random.Random) -> bool:
    """Start the stage's command and kill it at a random moment; False if it ended before."""
    process = started(stage.words(folder).split(), folder, stage.variables(folder))
    time.sleep(moments.random() * stage.latest * longest)
    end = time.monotonic() + 60
    while not stage.moment(folder) and time.monotonic() < end and _runs(process):
        time.sleep(0.0005)
    time.sleep(moments.random() * 0.02)
    if not _runs(process):
        return False
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def _runs(process: int) -> bool:
    try:
        return os.waitpid(process, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def visible(folder: Path) -> Iterator[Path]:
    """Files that have their names, not those that are being written."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def torn(folder: Path) -> list[str]:
    """Files that are not whole. Checkpoints but the last two are being removed."""
    found = []
    for path in visible(folder):
        checkpoint = path.parent if path.parent.parent.name == "checkpoints" else None
        newest = sorted(p for p in checkpoint.parent.iterdir() if p.name.isdigit())[-2:] if checkpoint else []
        if checkpoint and checkpoint not in newest:
            continue
        try:
            _read(path)
        except Exception as error:
            found.append(f"{path}: {error}")
    return found


def _read(path: Path) -> None:
    if path.suffix == ".json":
        content = json.loads(path.read_bytes())
        for name, checksum in content.get("sha256", {}).items() if isinstance(content, dict) else ():
            if hashlib.sha256((path.parent / name).read_bytes()).hexdigest() != checksum:
                raise ValueError(f"{name} is not that of its index")
    elif path.suffix == ".safetensors":
        safetensors.torch.load_file(path)
    elif path.suffix == ".jsonl":
        *whole, _ = path.read_bytes().split(b"\n")
        for line in whole:
            json.loads(line)
    elif path.suffix == ".npy":
        np.load(path)


def outcome(folder: Path) -> dict[str, Any]:
    """What must be equal: weights, metrics, results and tables, without times, places and names that are drawn."""
    found: dict[str, Any] = {}
    for path in visible(folder):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors" or path.suffix in (".md", ".tex", ".svg", ".png"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.suffix == ".npy":
            found["cache"] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.name == "metrics.jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            found[name] = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
        elif path.name == "result.json":
            result = json.loads(path.read_bytes())
            found[name] = {key: result[key] for key in ("accuracies", "alphas", "threads")}
        elif path.name == "calibration.json":
            found[name] = json.loads(path.read_bytes())
        elif path.name == "pretraining.json":
            found[name] = json.loads(path.read_bytes())["epochs"]
    return found


def reached(folder: Path) -> int:
    """Iterations, or epochs, of the newest checkpoints."""
    return sum(last_iteration(path) for path in folder.rglob(RunFolder(folder).checkpoints.name))


def disturbed(name: str, stage: Stage, folder: Path, kills: int, reference: Reference, to: Figures) -> None:
    """Kill the stage so many times in one folder, then let it end, and compare it with the reference."""
    folder.mkdir()
    stage.before(folder)
    old, done = outcome(folder), 0
    for _ in range(kills):
        if not killed(stage, folder, reference.seconds, reference.moments):
            break
        to.kills[name] += 1
        to.torn += torn(folder)
        if name == "reporting" and outcome(folder) not in (old, reference.outcome):
            to.torn.append(f"{folder}: a mixture of two reports")
        before, done = done, reached(folder)
        to.lost += [f"{folder}: back from {before} to {done}"] if done < before else []
    run(stage.words(folder).split(), folder, stage.variables(folder))
    to.resumed_to_the_end += 1
    now = outcome(folder)
    names = [key for key in now | reference.outcome if now.get(key) != reference.outcome.get(key)]
    to.different += [f"{folder}: {key}" for key in names]
    to.left_over += [str(path) for path in folder.rglob("*") if TEMPORARY.fullmatch(path.name)]
    if not to.bad:
        shutil.rmtree(folder)


def undisturbed(stage: Stage, folder: Path, moments: random.Random) -> Reference:
    """Do a stage without kills."""
    folder.mkdir(parents=True)
    stage.before(folder)
    seconds = run(stage.words(folder).split(), folder, stage.variables(folder))
    return Reference(outcome(folder), seconds, moments)


def kill_many(names: list[str], kills: int, place: Path, moments: random.Random) -> Figures:
    """Kill each of the stages in turn until there were so many kills."""
    figures, known = Figures(dict.fromkeys(names, 0)), stages(place)
    references = {}
    for name, stage in known.items():
        if name in {*names, "training", "checkpointing"}:  # others begin with what these two made
            references[name] = undisturbed(stage, place / "reference" / name, moments)
            print(f"{name}: {references[name].seconds:.1f} s undisturbed", file=sys.stderr, flush=True)
    turn = 0
    while (left := kills - sum(figures.kills.values())) > 0:
        name = min(names, key=lambda name: figures.kills[name])
        turn += 1
        some = min(left, moments.randint(1, 4), -(-kills // len(names)))
        disturbed(name, known[name], place / f"{turn}-{name}", some, references[name], figures)
        words = "something is wrong" if figures.bad else "all is well"
        print(f"{sum(figures.kills.values())} of {kills} kills, {words}", file=sys.stderr, flush=True)
    return figures


def draw_images(folder: Path, classes: int = 24, images: int = 30) -> None:
    """A data set of grey noise, a folder for each class."""
    noise = np.random.default_rng(0)
    for number in range(classes):
        (folder / f"class {number:02d}").mkdir(parents=True)
        for image in range(images):
            pixels = noise.integers(0, 256, (28, 28), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"class {number:02d}" / f"{image:02d}.png")


def main() -> None:
    """Kill, compare, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="number of kills over all stages")
    parser.add_argument("--stages", default=",".join(stages(Path())), help="which stages, separated by commas")
    parser.add_argument("--seed", type=int, default=None, help="seed of the moments; drawn if left out")
    parser.add_argument("--keep", type=Path, help="folder for the runs, kept; a temporary one if left out")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    set_variables = [name for name in os.environ if name.endswith("_NUM_THREADS")]
    for name in set_variables:
        raise SystemExit(f"{name} is set; unset it: runs must get the threads that a shell gives them")
    seed = random.randrange(10**6) if given.seed is None else given.seed
    began = time.monotonic()
    place = given.keep or Path(tempfile.mkdtemp())
    draw_images(place / "images")
    os.environ.setdefault("TASKNORM_CACHE", str(place / "cache"))
    figures = kill_many(given.stages.split(","), given.kills, place, random.Random(seed))
    about = {"threads": torch.get_num_threads(), "seed": seed, "seconds": round(time.monotonic() - began)}
    found = {"total": sum(figures.kills.values())} | asdict(figures) | about
    print(json.dumps(found, indent=1) if given.json else "\n".join(f"{key}: {value}" for key, value in found.items()))
    if given.keep is None and not figures.bad:
        shutil.rmtree(place)
    sys.exit(1 if figures.bad else 0)


if __name__ == "__main__":
    main()
