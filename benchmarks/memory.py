"""Memory of a training step as the context grows: the plain step, and the same step in chunks (`--chunk`).

CNAPs and ProtoNets with TaskNorm-I on images of 84 pixels, 40 targets, one task. Each number is the most memory that a
process of its own held during its first step, beyond what it held before, in megabytes (10^6 bytes). The time ratio is
that of a step in chunks to a plain one at 500 context images, taken in turn in one process.

    python benchmarks/memory.py                        prints a table; takes a quarter of an hour and 9 GB
    python benchmarks/memory.py --json                 prints JSON
    python benchmarks/memory.py --adapt --json         memory of `adapt` with 1,000 and 10,000 images
    python benchmarks/memory.py --paper                what LITE would keep at these shapes, on paper
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stopwatch import fastest
from tasknorm import NORMS, Episode
from tasknorm.learners import CNAPs, Learner, ProtoNets
from tasknorm.nets import resnet18, resnet_small

NORM = NORMS["TaskNorm-I"]
SIDE, WAY, TARGETS, CHUNK = 84, 10, 40, 16
SIZES = (50, 100, 200, 500, 1000)
TIMED = 500
NETS = {"resnet-small": resnet_small, "resnet18": resnet18}
LEARNERS = ("cnaps", "protonets")


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
    return memory("VmHWM") - before


def elsewhere(*words: str) -> Any:
    """What this file prints in a process of its own; None if that was killed, as for want of memory."""
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=False)
    if done.returncode < 0:
        return None
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def time_ratio(learner: str, net: str, context: int, chunk: int, repeats: int) -> float:
    """How much longer a step in chunks takes."""
    task = episode(context)
    steps = {str(c): step_of(learner_of(learner, net, c), task) for c in (None, chunk)}
    seconds = fastest(steps, repeats)
    return round(seconds[str(chunk)] / seconds["None"], 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=4)
    parser.add_argument("--time", nargs=4)
    a = parser.parse_args()
    torch.set_num_threads(2)
    if a.one:
        print(json.dumps(measure(a.one[0], a.one[1], int(a.one[2]), int(a.one[3]) or None)))
    if a.time:
        print(json.dumps(time_ratio(a.time[0], a.time[1], int(a.time[2]), int(a.time[3]), 2)))


if __name__ == "__main__":
    main()
