"""Memory of a training step as the context grows: the plain step, and the same step in chunks (`--chunk`).

CNAPs and ProtoNets with TaskNorm-I on images of 84 pixels, 40 targets, one task. Each number is the most memory that a
process of its own held during its first step, beyond what it held before, in megabytes (10^6 bytes). It is null where
it would be more than 10 GB, as the line through the two sizes before says, or was not asked for. The time ratio is
that of a step in chunks to a plain one at 500 context images: both in turn in one process, medians.

LITE (Bronskill et al., 2021) keeps the graph of a random subset of the context and estimates the gradient from it. What
it would need is given on paper, for a subset of 40 images: the plain step's memory at 40, on the line through what was
measured at the two smallest sizes. It cannot send gradients through the moments of the whole context.

`adapt` is what `tasknorm adapt` does with CNAPs and the small ResNet once images are read: adapt, and write the
predictor's file. There the number is the most that the whole process held.

    python benchmarks/memory.py           prints tables; takes an hour of two cores, 10 GB, and 6 GB of temporary files
    python benchmarks/memory.py --json    prints JSON
    python benchmarks/memory.py --sizes 50,200,500 --nets resnet-small --adapt ""    a part of it
    python benchmarks/memory.py --json --kept memory.json    keeps each number in a file; what is there stays
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from tasknorm import NORMS, Episode
from tasknorm.data import Preparation, Prepared
from tasknorm.learners import CNAPs, Learner, ProtoNets
from tasknorm.machine import return_freed_memory
from tasknorm.nets import resnet18, resnet_small

NORM = NORMS["TaskNorm-I"]
SIDE, WAY, TARGETS, SUBSET = 84, 10, 40, 40
SIZES = (50, 100, 200, 500, 1000)
TIMED = 500
MOST = 10_000  # megabytes; a step that would need more is left out
NETS = {"resnet-small": resnet_small, "resnet18": resnet18}
LEARNERS = ("cnaps", "protonets")
Table = dict[str, Any]


def learner_of(learner: str, net: str, chunk: int | None) -> Learner:
    """A learner with initial weights, in chunks if a number of examples is given."""
    torch.manual_seed(0)
    made: Learner
    if learner == "cnaps":
        made = CNAPs(NETS[net](NORM, film=True, image_shape=(3, SIDE, SIDE)), NORM)
    else:
        made = ProtoNets(NETS[net](NORM, image_shape=(3, SIDE, SIDE)), reduction="sum")
    return made if chunk is None else made.in_chunks(chunk)


def episode(context: int) -> Episode:
    """Random images: memory does not depend on what they show."""
    generator = torch.Generator().manual_seed(0)

    def images(count: int) -> Tensor:
        return torch.rand(count, 3, SIDE, SIDE, generator=generator)

    return Episode(images(context), torch.arange(context) % WAY, images(TARGETS), torch.arange(TARGETS) % WAY)


def step_of(learner: Learner, task: Episode) -> Callable[[], None]:
    """Forward and backward on one task."""

    def step() -> None:
        learner.zero_grad()
        learner.learn([task]).losses.sum().backward()

    return step


def memory(name: str) -> float:
    """Megabytes that this process holds (VmRSS), or has held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / 1e6


def measure(learner: str, net: str, context: int, chunk: int | None) -> float:
    """Megabytes that one step needs, in this process."""
    step = step_of(learner_of(learner, net, chunk), episode(context))
    before = memory("VmRSS")
    step()
    return round(memory("VmHWM") - before)


def time_ratio(learner: str, net: str, context: int, chunk: int, repeats: int) -> float:
    """How many times as long a step in chunks takes, in this process: medians, in seconds of the processor."""
    task = episode(context)
    steps = [step_of(learner_of(learner, net, size), task) for size in (None, chunk)]
    seconds: list[list[float]] = [[], []]
    for _ in range(repeats + 1):
        for step, spent in zip(steps, seconds, strict=True):
            began = time.process_time()
            step()
            spent.append(time.process_time() - began)
    plain, chunked = (median(spent[1:]) for spent in seconds)  # the first turn warms up
    return round(chunked / plain, 2)


class Classes(Mapping[str, Prepared]):
    """Random images of each class, made when they are asked for, as a folder's are read."""

    def __init__(self, each: int) -> None:
        self._each = each

    def __getitem__(self, name: str) -> Prepared:
        generator = torch.Generator().manual_seed(int(name))
        shape = (self._each, 3, SIDE, SIDE)
        return Prepared(torch.randint(256, shape, generator=generator, dtype=torch.uint8))

    def __iter__(self) -> Iterator[str]:
        return map(str, range(WAY))

    def __len__(self) -> int:
        return WAY


def adapted(context: int, chunk: int) -> tuple[float, float]:
    """Megabytes that this process held at most while it adapted and wrote the predictor, and seconds of a processor."""
    made = learner_of("cnaps", "resnet-small", None).eval()
    made.chunk = chunk
    return_freed_memory()  # as the command does
    began = time.process_time()
    predictor = made.adapt_to(Classes(context // WAY), Preparation(size=SIDE, channels=3))
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(Path(folder, "predictor.safetensors"))
    return round(memory("VmHWM")), round(time.process_time() - began, 1)


class Kept:
    """What was measured, each function of this file with its arguments in a process of its own.

    Args:
        file: where numbers are kept, so that an interrupted benchmark goes on; None for nowhere.
        threads: of each process.
    """

    def __init__(self, file: Path | None, threads: int) -> None:
        self._file = file
        self._threads = threads
        self._found: Table = json.loads(file.read_text()) if file is not None and file.exists() else {}

    def __call__(self, function: str, *arguments: Any) -> Any:
        """What the function returns; None if its process was killed, as for want of memory."""
        key = json.dumps([function, *arguments])
        if key not in self._found:
            command = [sys.executable, __file__, "--threads", str(self._threads), "--call", key]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode > 0:
                raise SystemExit(f"{' '.join(command)} failed")
            self._found[key] = None if done.returncode < 0 else json.loads(done.stdout)
            if self._file is not None:
                self._file.write_text(json.dumps(self._found, indent=1))
        return self._found[key]


def line(found: Mapping[int, float], size: int) -> float:
    """The value at a size on the line through the two largest sizes that were measured."""
    (first, low), (last, high) = sorted(found.items())[-2:]
    return high + (high - low) / (last - first) * (size - last)


def peaks(kept: Kept, learner: str, net: str, chunk: int | None, sizes: Sequence[int]) -> dict[str, float | None]:
    """Megabytes at each size."""
    found: dict[int, float] = {}
    for size in sizes:
        if len(found) < 2 or line(found, size) <= MOST:
            megabytes = kept("measure", learner, net, size, chunk)
            if megabytes is not None:
                found[size] = megabytes
    return {str(size): found.get(size) for size in sorted({*SIZES, *sizes})}


def steps(arguments: argparse.Namespace, kept: Kept, learner: str, net: str) -> Table:
    """Memory at all sizes, what LITE would need, and the time ratio."""
    sizes = numbers(arguments.sizes if net == "resnet-small" else arguments.large_sizes)
    found: Table = {
        kind: peaks(kept, learner, net, chunk, sizes) for kind, chunk in (("plain", None), ("chunked", arguments.chunk))
    }
    plain = {size: value for size in sizes[:2] if (value := found["plain"][str(size)]) is not None}
    if len(plain) == 2:
        found["lite_on_paper"] = round(line(plain, SUBSET))
    if arguments.repeats and TIMED in sizes:
        found["time_ratio"] = kept("time_ratio", learner, net, TIMED, arguments.chunk, arguments.repeats)
    return found


def adaptations(arguments: argparse.Namespace, kept: Kept) -> Table:
    """Memory and time of adapting to as many images."""
    found = {str(size): kept("adapted", size, arguments.chunk) for size in numbers(arguments.adapt)}
    table: Table = {size: each and each[0] for size, each in found.items()}
    return table | {"seconds": {size: each and each[1] for size, each in found.items()}}


def table(results: Mapping[str, Any]) -> str:
    """What was measured, in Markdown."""
    head = f"| net | step | {' | '.join(f'{size:,}' for size in SIZES)} | time |"
    lines = [head, "|---|---|" + "--:|" * (len(SIZES) + 1)]
    for learner, label in (("cnaps", "CNAPs"), ("protonets", "ProtoNets")):
        for net, found in results[learner].items():
            name = f"{label}, {'ResNet-18' if net == 'resnet18' else 'small'}"
            for kind in ("plain", "chunked"):
                cells = [found[kind].get(str(size)) for size in SIZES]
                shown = ["-" if cell is None else f"{cell:,.0f}" for cell in cells]
                ratio = found.get("time_ratio", "-") if kind == "chunked" else 1 if "time_ratio" in found else "-"
                lines.append(f"| {name} | {kind} | {' | '.join(shown)} | {ratio} |")
            lite = f"{found['lite_on_paper']:,}"
            lines.append(f"| {name} | LITE | {' | '.join([lite] * len(SIZES))} | - |")
    return "\n".join(lines)


def adapt_words(results: Mapping[str, Any]) -> str:
    """What adapting takes, in words."""
    found = results["adapt"]
    small, large = (f"{found[size]:,.0f} MB and {found['seconds'][size]:,.0f} s" for size in ("1000", "10000"))
    return f"{small} of one core for 1,000 images, {large} for 10,000"


def numbers(text: str) -> list[int]:
    """Numbers that are separated by commas."""
    return [int(number) for number in text.split(",") if number]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ",".join(map(str, SIZES))
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--sizes", default=every, help="numbers of context images")
    parser.add_argument("--large-sizes", default=every, help="the same for resnet18")
    parser.add_argument("--learners", default=",".join(LEARNERS), help="which learners")
    parser.add_argument("--nets", default=",".join(NETS), help="which nets")
    parser.add_argument("--adapt", default="1000,10000", help="numbers of images to adapt to; empty for none")
    parser.add_argument("--chunk", type=int, default=32, help="images that pass at a time")
    parser.add_argument("--repeats", type=int, default=3, help="timed turns, whose median counts; 0 for none")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--kept", type=Path, help="file of what was measured: an interrupted benchmark goes on")
    parser.add_argument("--call", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.call is not None:
        functions: dict[str, Callable[..., Any]] = {"measure": measure, "time_ratio": time_ratio, "adapted": adapted}
        name, *rest = json.loads(arguments.call)
        print(json.dumps(functions[name](*rest)))
        return
    kept = Kept(arguments.kept, arguments.threads)
    results: Table = {
        learner: {net: steps(arguments, kept, learner, net) for net in arguments.nets.split(",")}
        for learner in arguments.learners.split(",")
    }
    if arguments.adapt:
        results["adapt"] = adaptations(arguments, kept)
    if arguments.json:
        about = {"torch": torch.__version__, "threads": arguments.threads, "chunk": arguments.chunk}
        print(json.dumps(about | results, indent=1))
        return
    for first, rows in results.items():
        for second, values in rows.items():
            print(f"{first:10} {second:13} {values}")


if __name__ == "__main__":
    main()
