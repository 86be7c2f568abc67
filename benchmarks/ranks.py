"""How much faster two processes train than one, with one thread each: tasks per second of two ÷ one.

    python benchmarks/ranks.py --json

One and two processes are measured in turns, several times, and each figure is the median of the turns: a machine that
others use too is not equally fast at all times. The processes are started by torchrun. An iteration is the meta-step,
with its sums over processes, and the optimizer's step. `work` is the processor time of all processes for one
iteration, two ÷ one: what is above 1 is done twice, or lost because a process passes fewer tasks at once. `waiting` is
the share of an iteration that a process spends in the sums, most of it until the other process is there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from statistics import median
from typing import Any

import torch

from tasknorm.machine import Processes, connected, keep_freed_memory
from tasknorm.runs.parts import learner_of, task_of
from tasknorm.settings import Settings
from tasknorm.training.meta_step import meta_step

LEARNERS: dict[str, dict[str, Any]] = {
    "maml": {"learner": "maml"},
    "protonets": {"learner": "protonets", "meta_batch": 8, "train_way": 5},
}
PORT = ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0")


def measured(name: str, ranks: int, iterations: int) -> list[dict[str, float]]:
    """What each of some processes measured."""
    launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={ranks}", *PORT] if ranks > 1 else []
    words = [__file__, "--iterations", str(iterations), "--process", name]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *launcher, *words], stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed with {ranks} processes")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def work(name: str, iterations: int) -> dict[str, float]:
    """Do iterations in this process, with the others that torchrun started: medians of their seconds."""
    keep_freed_memory()
    torch.set_num_threads(1)
    settings = Settings.of({"source": "glyphs", "norm": "TaskNorm-I", "device": "cpu"} | LEARNERS[name])
    with connected("cpu") as processes:
        learner, task = learner_of(settings).train(), task_of(settings, "train")
        optimizer = torch.optim.Adam(learner.parameters())
        watched = _Watched(processes.rank, processes.count, processes.local)
        share = [task(number) for number in processes.share(settings.meta_batch)]
        rows = []
        for _ in range(iterations + 2):
            watched.waited, wall, cpu = 0.0, time.perf_counter(), time.process_time()
            optimizer.zero_grad()
            meta_step(learner, share, settings, watched)
            optimizer.step()
            rows.append((time.perf_counter() - wall, time.process_time() - cpu, watched.waited))
    seconds, processor, waited = (median(column) for column in zip(*rows[2:], strict=True))
    return {"seconds": seconds, "fastest": min(row[0] for row in rows), "processor": processor, "waited": waited}


class _Watched(Processes):
    """Processes whose sums are timed."""

    waited = 0.0
    __setattr__ = object.__setattr__  # the base is frozen

    def add(self, tensors: Any) -> None:
        began = time.perf_counter()
        super().add(tensors)
        self.waited += time.perf_counter() - began


def compared(name: str, iterations: int, turns: int) -> dict[str, Any]:
    """Two processes beside one: medians over the turns, and the ratio of each turn."""
    rows = [_turn(name, iterations) for _ in range(turns)]
    medians = {key: median(row[key] for row in rows) for key in rows[0]}
    return medians | {"ratios": sorted(round(row["ratio"], 2) for row in rows)}


def _turn(name: str, iterations: int) -> dict[str, float]:
    one, two = measured(name, 1, iterations)[0], measured(name, 2, iterations)
    slower = max(two, key=lambda rank: rank["seconds"])
    return {
        "ratio": one["seconds"] / slower["seconds"],
        "ratio_of_fastest": one["fastest"] / max(rank["fastest"] for rank in two),
        "work": sum(rank["processor"] for rank in two) / one["processor"],
        "waiting": slower["waited"] / slower["seconds"],
        "milliseconds_of_one": 1000 * one["seconds"],
    }


def main() -> None:
    """Measure both learners."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.process:
        sys.stdout.write(json.dumps(work(given.process, given.iterations)) + "\n")  # in one piece: ranks share it
        return
    found = {name: compared(name, given.iterations, given.turns) for name in LEARNERS}
    if given.json:
        print(json.dumps(found, indent=1))
        return
    for name, values in found.items():
        print(f"{name:10} " + "  ".join(f"{key} {value}" for key, value in values.items()))


if __name__ == "__main__":
    main()
