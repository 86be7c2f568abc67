"""Memory of a training step as the context grows: the plain step, and the same step in chunks (`--chunk`).

CNAPs and ProtoNets with TaskNorm-I on images of 84 pixels, 40 targets, one task. Each number is the most memory that a
process of its own held during its first step, beyond what it held before, in megabytes (10^6 bytes); null where it was
killed. The time ratio is that of a step in chunks to a plain one at 500 context images, in turn in one process.

LITE (Bronskill et al., 2021) keeps the graph of a random subset of the context and estimates the gradient from it. What
it would need is given on paper, for a subset of 40 images: the plain step's memory at 40, on the line through what was
measured. It cannot send gradients through the moments of the whole context.

`adapt` gives a context in bytes to `Learner.adapt_to`; there the number is the most that the whole process held.

    python benchmarks/memory.py           prints tables; takes an hour of two cores, 13 GB, and 6 GB of temporary files
    python benchmarks/memory.py --json    prints JSON
    python benchmarks/memory.py --sizes 50,200,500 --nets resnet-small --adapt ""    a part of it
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stopwatch import fastest
from tasknorm import NORMS, Episode
from tasknorm.data import Preparation, Prepared
from tasknorm.learners import CNAPs, Learner, ProtoNets
from tasknorm.nets import resnet18, resnet_small

NORM = NORMS["TaskNorm-I"]
SIDE, WAY, TARGETS, SUBSET = 84, 10, 40, 40
TIMED = 500
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
    """How many times as long a step in chunks takes, in this process."""
    task = episode(context)
    steps = {str(size): step_of(learner_of(learner, net, size), task) for size in (None, chunk)}
    seconds = fastest(steps, repeats)
    return round(seconds[str(chunk)] / seconds[str(None)], 2)


def adapted(learner: str, net: str, context: int, chunk: int) -> tuple[float, float]:
    """Megabytes that this process held at most while it adapted, and seconds."""
    made = learner_of(learner, net, None).eval()
    made.chunk = chunk
    classes = torch.randint(256, (WAY, context // WAY, 3, SIDE, SIDE), dtype=torch.uint8)
    pictures = {str(number): Prepared(images) for number, images in enumerate(classes)}
    began = time.perf_counter()
    made.adapt_to(pictures, Preparation(size=SIDE, channels=3))
    return round(memory("VmHWM")), round(time.perf_counter() - began, 1)


def elsewhere(function: str, *arguments: Any) -> Any:
    """What a function of this file returns in a process of its own; None if that was killed, as for want of memory."""
    command = [sys.executable, __file__, "--call", function, json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode < 0:
        return None
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return json.loads(done.stdout)


def on_paper(plain: dict[str, float | None], sizes: Sequence[int]) -> dict[str, int]:
    """What LITE would need at these sizes."""
    known = {size: found for size in sizes if (found := plain[str(size)]) is not None}
    (first, low), (last, high) = min(known.items()), max(known.items())
    each = (high - low) / max(1, last - first)
    return {str(size): round(low + each * (min(size, SUBSET) - first)) for size in sizes}


def steps(arguments: argparse.Namespace, learner: str, net: str) -> Table:
    """Memory at all sizes, and the time ratio."""
    sizes = [int(size) for size in arguments.sizes.split(",")]
    found: Table = {
        kind: {str(size): elsewhere("measure", learner, net, size, chunk) for size in sizes}
        for kind, chunk in (("plain", None), ("chunked", arguments.chunk))
    }
    found["lite_on_paper"] = on_paper(found["plain"], sizes)
    if arguments.repeats:
        found["time_ratio"] = elsewhere("time_ratio", learner, net, TIMED, arguments.chunk, arguments.repeats)
    return found


def adaptations(arguments: argparse.Namespace, learner: str) -> Table:
    """Memory and time of adapting with as many images."""
    sizes = [int(size) for size in arguments.adapt.split(",")]
    found = {size: elsewhere("adapted", learner, "resnet-small", size, arguments.chunk) for size in sizes}
    table: Table = {str(size): each and each[0] for size, each in found.items()}
    table["seconds"] = {str(size): each and each[1] for size, each in found.items()}
    table["ratio"] = round(found[sizes[-1]][0] / found[sizes[0]][0], 2)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--sizes", default="50,100,200,500,1000", help="numbers of context images")
    parser.add_argument("--learners", default=",".join(LEARNERS), help="which learners")
    parser.add_argument("--nets", default=",".join(NETS), help="which nets")
    parser.add_argument("--adapt", default="1000,10000", help="numbers of images to adapt to; empty for none")
    parser.add_argument("--chunk", type=int, default=32, help="images that pass at a time")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs, of which the fastest counts; 0 for none")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--call", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.setdefault("MEMORY_THREADS", str(arguments.threads))))
    if arguments.call is not None:
        functions: dict[str, Callable[..., Any]] = {"measure": measure, "time_ratio": time_ratio, "adapted": adapted}
        print(json.dumps(functions[arguments.call[0]](*json.loads(arguments.call[1]))))
        return
    results: Table = {}
    for learner in arguments.learners.split(","):
        results[learner] = {net: steps(arguments, learner, net) for net in arguments.nets.split(",") if net}
        if arguments.adapt:
            results[learner]["adapt"] = {"resnet-small": adaptations(arguments, learner)}
    if arguments.json:
        about = {"torch": torch.__version__, "threads": arguments.threads, "chunk": arguments.chunk}
        print(json.dumps(about | results, indent=1))
        return
    for learner, nets in results.items():
        for net, rows in nets.items():
            for row, values in rows.items():
                print(f"{learner:10} {net:13} {row:14} {values}")


if __name__ == "__main__":
    main()
