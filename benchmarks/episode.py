"""Speed of a training step of ProtoNets and CNAPs: one joint pass against two passes, context and targets apart.

ProtoNets: Conv-4 of 64 filters, 20-way 1-shot with 5 targets a class, 28 pixels. CNAPs: the small ResNet, 5-way 5-shot
with 10 targets a class, 8 tasks at a time. The norm is TaskNorm-I. Both ways are timed in turn in one process and
must give the same losses.

    python benchmarks/episode.py           prints a table; takes half a minute
    python benchmarks/episode.py --json    prints JSON
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

import tasknorm
from stopwatch import fastest
from tasknorm import NORMS, Episode
from tasknorm.learners import CNAPs, ProtoNets, class_means
from tasknorm.nets import protonets_conv4, resnet_small

NORM = NORMS["TaskNorm-I"]
Step = Callable[[], float]


def episodes(tasks: int, way: int, shot: int, targets: int) -> list[Episode]:
    """Random images: the time does not depend on what they show."""
    generator = torch.Generator().manual_seed(0)
    context_y, target_y = torch.arange(way).repeat(shot), torch.arange(way).repeat(targets)

    def images(count: int) -> Tensor:
        return torch.rand(count, 1, 28, 28, generator=generator)

    return [Episode(images(len(context_y)), context_y, images(len(target_y)), target_y) for _ in range(tasks)]


def two_passes_protonets(learner: ProtoNets, tasks: list[Episode]) -> Iterator[Tensor]:
    """The loss of each task, by separate passes of context and targets."""
    for task in tasks:
        with tasknorm.context(learner.net):
            context = learner.net(task.context_x)
        with tasknorm.target(learner.net):
            targets = learner.net(task.target_x)
        means = class_means(context[None], task.context_y[None], task.way)[0]
        logits = -torch.cdist(targets, means).square()
        yield torch.nn.functional.cross_entropy(logits, task.target_y)


def two_passes_cnaps(learner: CNAPs, tasks: list[Episode]) -> Iterator[Tensor]:
    """The loss of each task, by separate passes of context and targets."""
    assert learner.film_generator is not None
    for task in tasks:
        film = learner._film(task.context_x, 1)
        with tasknorm.context(learner.extractor):
            context = functional_call(learner.extractor, film, (task.context_x,))
        with tasknorm.target(learner.extractor):
            targets = functional_call(learner.extractor, film, (task.target_x,))
        weight, bias = learner.classifier_generator(class_means(context[None], task.context_y[None], task.way))
        logits = targets @ weight[0].t() + bias[0]
        loss = torch.nn.functional.cross_entropy(logits, task.target_y, reduction="sum")
        yield loss + learner.regulariser * learner.film_generator.regulariser()


def step_of(learner: Any, losses: Callable[[], Iterable[Tensor]]) -> Step:
    """A function that runs forward and backward on one meta-batch, loss by loss, and returns the total loss."""

    def step() -> float:
        learner.zero_grad()
        total = 0.0
        for loss in losses():
            loss.backward()
            total += loss.item()
        return total

    return step


def measure(steps: dict[str, Step], tasks: int, repeats: int) -> dict[str, Any]:
    """Tasks per second of both ways, and their ratio."""
    losses = {name: step() for name, step in steps.items()}
    if abs(losses["joint"] - losses["two passes"]) > 1e-3 * abs(losses["joint"]):
        raise SystemExit(f"the losses of the two ways differ by more than 0.1 %: {losses}")
    seconds = fastest(steps, repeats)
    return {
        "tasks_per_second": {name: round(tasks / value, 1) for name, value in seconds.items()},
        "ratio_to_two_passes": round(seconds["two passes"] / seconds["joint"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--repeats", type=int, default=10, help="timed runs of each way, of which the fastest counts")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    protonets = ProtoNets(protonets_conv4(NORM))
    one = episodes(1, way=20, shot=1, targets=5)
    cnaps = CNAPs(resnet_small(NORM, film=True), NORM)
    eight = episodes(8, way=5, shot=5, targets=10)
    results = {
        "protonets": measure(
            {
                "joint": step_of(protonets, lambda: [protonets.learn(one).losses.sum()]),
                "two passes": step_of(protonets, lambda: two_passes_protonets(protonets, one)),
            },
            len(one),
            arguments.repeats,
        ),
        "cnaps": measure(
            {
                "joint": step_of(cnaps, lambda: [cnaps.learn(eight).losses.sum()]),
                "two passes": step_of(cnaps, lambda: two_passes_cnaps(cnaps, eight)),
            },
            len(eight),
            arguments.repeats,
        ),
    }
    if arguments.json:
        print(json.dumps({"torch": torch.__version__, "threads": 2} | results, indent=1))
        return
    for name, result in results.items():
        print(f"{name:12}{result['tasks_per_second']}  a joint pass is {result['ratio_to_two_passes']} times as fast")


if __name__ == "__main__":
    main()
