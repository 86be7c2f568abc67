"""One MAML meta-iteration against `higher` and `torchopt`: tasks per second and memory, timed in turn in one process.

First order: 32 tasks with the shapes of 5-way 1-shot Omniglot, 5 context and 5 target images, the stride-2 Conv-4 of 64
filters and one inner step; with batch norm by the moments of the batch (TBN), and with TaskNorm-I, where context and
targets pass jointly. Second order: 4 tasks, 5 inner steps and 15 targets per class, TBN; ours for several numbers of
tasks at once, of which the largest counts that needs at most twice the memory of the others. All must compute the same
meta-gradient, checked in float64. Each timed iteration follows one of the same library, as in a training.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/maml.py              prints a table; takes about 5 minutes
    python benchmarks/maml.py --eager      skips the compiled versions of ours
    python benchmarks/maml.py --json       prints JSON
    python benchmarks/maml.py --only second_order --threads 1
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from stopwatch import fastest, peak_bytes
from tasknorm import NORMS, Episode
from tasknorm.learners import MAML
from tasknorm.machine.memory import keep_freed_memory
from tasknorm.nets import maml_omniglot

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import higher
    import torchopt

WAY, INNER_LR = 5, 0.4
Gradients = dict[str, Tensor]
Step = Callable[[], Gradients]


@dataclass(frozen=True)
class Setting:
    """The tasks and the inner loop that are measured."""

    tasks: int
    targets: int
    steps: int
    first_order: bool
    norm: str = "TBN"

    @property
    def at_once(self) -> tuple[int, ...]:
        """Numbers of tasks that run together, of which ours is measured with each."""
        return (self.tasks,) if self.first_order else (1, 2, self.tasks)


FIRST_ORDER = Setting(tasks=32, targets=1, steps=1, first_order=True)
TASK_NORM = Setting(tasks=32, targets=1, steps=1, first_order=True, norm="TaskNorm-I")
SECOND_ORDER = Setting(tasks=4, targets=15, steps=5, first_order=False)
SETTINGS = {"first_order": FIRST_ORDER, "first_order_task_norm": TASK_NORM, "second_order": SECOND_ORDER}


class BatchNorm(nn.Module):
    """torch's batch norm with the moments of the batch and an offset alone, as in MAML's reference code."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, None, None, None, self.bias, True, 0.0, 1e-3)


class TaskNormI(nn.Module):
    """TaskNorm-I of torch's own operations, for batches whose first `WAY` images are the context."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.alpha_offset = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        var, mean = torch.var_mean(x, (2, 3), correction=0, keepdim=True)
        context_var, context_mean = torch.var_mean(x[:WAY], (0, 2, 3), correction=0, keepdim=True)
        alpha = torch.sigmoid(self.alpha_offset)
        pooled = alpha * context_mean + (1 - alpha) * mean
        pooled_var = alpha * context_var + (1 - alpha) * var + alpha * (1 - alpha) * (context_mean - mean).square()
        return (x - pooled) * torch.rsqrt(pooled_var + 1e-3) + self.bias[:, None, None]


class PeersNet(nn.Module):
    """Conv-4 made of torch's own layers, with the same parameter names as our net."""

    def __init__(self, norm: type[nn.Module]) -> None:
        super().__init__()
        blocks = []
        for channels in (1, 64, 64, 64):
            block = nn.Sequential()
            block.add_module("conv", nn.Conv2d(channels, 64, 3, stride=2, padding=1))
            block.add_module("norm", norm(64))
            block.add_module("relu", nn.ReLU())
            blocks.append(block)
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(64, WAY)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.blocks(x).mean((2, 3)))
        return logits


def episodes(setting: Setting, dtype: torch.dtype) -> list[Episode]:
    """Random images: the time does not depend on what they show."""
    generator = torch.Generator().manual_seed(0)

    def images(count: int) -> Tensor:
        return torch.rand(count, 1, 28, 28, generator=generator, dtype=dtype)

    labels = torch.arange(WAY), torch.arange(WAY).repeat(setting.targets)
    return [Episode(images(WAY), labels[0], images(len(labels[1])), labels[1]) for _ in range(setting.tasks)]


def our_step(setting: Setting, tasks: list[Episode], at_once: int, *, compiled: bool = False) -> Step:
    """One meta-iteration of `tasknorm`."""
    net = our_net(setting).to(tasks[0].context_x.dtype)
    learner = MAML(
        net,
        inner_lr=INNER_LR,
        inner_steps=setting.steps,
        first_order=setting.first_order,
        at_once=at_once,
        compiled=compiled,
    )

    def step() -> Gradients:
        net.zero_grad()
        learner.learn(tasks).losses.mean().backward()
        return _gradients(net)

    return step


def our_net(setting: Setting) -> nn.Module:
    """Our net with its initial weights."""
    torch.manual_seed(0)
    options: dict[str, Any] = {"alpha": "independent-shared"} if setting.norm == "TaskNorm-I" else {}
    return maml_omniglot(partial(NORMS[setting.norm], affine="offset", eps=1e-3, **options))


def peers_net(setting: Setting, dtype: torch.dtype) -> PeersNet:
    """The peers' net with our net's initial weights."""
    net = PeersNet(TaskNormI if setting.norm == "TaskNorm-I" else BatchNorm)
    net.load_state_dict(our_net(setting).state_dict(), strict=False)
    return net.to(dtype)


def seen_at_the_end(setting: Setting, task: Episode) -> Tensor:
    """The images that pass at adapted weights: with TaskNorm-I, the context before the targets."""
    return torch.cat((task.context_x, task.target_x)) if setting.norm == "TaskNorm-I" else task.target_x


def higher_step(setting: Setting, tasks: list[Episode]) -> Step:
    """One meta-iteration of `higher`, as in its own MAML example."""
    net = peers_net(setting, tasks[0].context_x.dtype)
    names = [name for name, _ in net.named_parameters()]
    sgd = torch.optim.SGD([p for name, p in net.named_parameters() if "norm" not in name], lr=INNER_LR)

    def step() -> Gradients:
        net.zero_grad()
        total: Gradients = {}
        for task in tasks:
            with higher.innerloop_ctx(
                net, sgd, copy_initial_weights=False, track_higher_grads=not setting.first_order
            ) as (model, optimizer):
                for _ in range(setting.steps):
                    optimizer.step(F.cross_entropy(model(task.context_x), task.context_y, reduction="sum"))
                logits = model(seen_at_the_end(setting, task))[-len(task.target_y) :]
                loss = F.cross_entropy(logits, task.target_y, reduction="sum") / len(tasks)
                if setting.first_order:
                    gradients = torch.autograd.grad(loss, model.parameters())
                    for name, gradient in zip(names, gradients, strict=True):
                        total[name] = total[name] + gradient if name in total else gradient
                else:
                    loss.backward()
        return total or _gradients(net)

    return step


def torchopt_step(setting: Setting, tasks: list[Episode]) -> Step:
    """One meta-iteration of `torchopt`, by its functional interface, which is the faster of its two."""
    net = peers_net(setting, tasks[0].context_x.dtype)
    outer = dict(net.named_parameters())
    adapted: dict[str, Tensor] = {name: p for name, p in outer.items() if "norm" not in name}
    sgd: Any = torchopt.sgd(INNER_LR)

    def step() -> Gradients:
        net.zero_grad()
        for task in tasks:
            weights, state = adapted, sgd.init(adapted)
            for _ in range(setting.steps):
                logits = functional_call(net, weights, (task.context_x,))
                loss = F.cross_entropy(logits, task.context_y, reduction="sum")
                gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=not setting.first_order)
                updates, state = sgd.update(dict(zip(weights, gradients, strict=True)), state, inplace=False)
                weights = torchopt.apply_updates(weights, updates, inplace=False)
            logits = functional_call(net, weights, (seen_at_the_end(setting, task),))[-len(task.target_y) :]
            (F.cross_entropy(logits, task.target_y, reduction="sum") / len(tasks)).backward()
        return _gradients(net)

    return step


def steps_of(setting: Setting, dtype: torch.dtype, *, compiled: bool) -> dict[str, Step]:
    """A meta-iteration of each library, on the same tasks and initial weights."""
    tasks = episodes(setting, dtype)
    steps = {"higher": higher_step(setting, tasks), "torchopt": torchopt_step(setting, tasks)}
    steps |= {_ours(at_once): our_step(setting, tasks, at_once) for at_once in setting.at_once}
    if compiled:
        steps["tasknorm compiled"] = our_step(setting, tasks, setting.tasks, compiled=True)
    return steps


def _ours(at_once: int) -> str:
    return f"tasknorm, {at_once} at once"


def difference(setting: Setting, *, compiled: bool) -> float:
    """The largest difference between our meta-gradient and any other, relative to the largest entry of ours.

    Computed in float64: in float32, rounding may carry an activation across the ReLU's kink, which is nobody's error.
    """
    gradients = {name: step() for name, step in steps_of(setting, torch.float64, compiled=compiled).items()}
    ours = gradients.pop(_ours(setting.tasks))
    size = max(float(gradient.abs().max()) for gradient in ours.values())
    return max(float((ours[name] - other[name]).abs().max()) / size for other in gradients.values() for name in ours)


def measure(setting: Setting, repeats: int, *, compiled: bool) -> dict[str, Any]:
    """Tasks per second and memory of each library, and our ratios to the better of the two others."""
    steps = steps_of(setting, torch.float32, compiled=compiled)
    seconds = fastest(steps, repeats, warm=True)
    megabytes = {name: peak_bytes(step) / 1e6 for name, step in steps.items()}
    rates = {name: setting.tasks / value for name, value in seconds.items()}
    peer, room = max(rates["higher"], rates["torchopt"]), min(megabytes["higher"], megabytes["torchopt"])
    fitting = [at_once for at_once in setting.at_once if megabytes[_ours(at_once)] <= 2 * room]
    at_once = max(fitting or setting.at_once)
    eager = rates[_ours(at_once)]
    return {
        "tasks_per_second": {name: round(rate, 1) for name, rate in rates.items()},
        "megabytes": {name: round(value, 1) for name, value in megabytes.items()},
        "gradient_difference": difference(setting, compiled=compiled),
        "at_once": at_once,
        "ratio_to_best_peer": round(rates.get("tasknorm compiled", eager) / peer, 2),
        "ratio_to_best_peer_eager": round(eager / peer, 2),
        "memory_ratio_to_best_peer": round(megabytes[_ours(at_once)] / room, 2),
    }


def _gradients(net: nn.Module) -> Gradients:
    return {name: p.grad for name, p in net.named_parameters() if p.grad is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--eager", action="store_true", help="skip the compiled version of ours")
    parser.add_argument(
        "--repeats", type=int, default=20, help="timed runs of each library, of which the fastest counts"
    )
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--only", choices=list(SETTINGS), help="measure this setting alone")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()  # as training does
    results = {
        name: measure(setting, arguments.repeats, compiled=setting.first_order and not arguments.eager)
        for name, setting in SETTINGS.items()
        if arguments.only in (None, name)
    }
    if max(result["gradient_difference"] for result in results.values()) > 1e-5:
        raise SystemExit(f"the meta-gradients differ by more than 1e-5 of their largest entry: {results}")
    if arguments.json:
        print(json.dumps({"torch": torch.__version__, "threads": arguments.threads} | results, indent=1))
        return
    for order, result in results.items():
        print(order)
        for name, rate in result["tasks_per_second"].items():
            print(f"  {name:22}{rate:8.1f} tasks/s{result['megabytes'][name]:10.1f} MB")
        best, eager = result["ratio_to_best_peer"], result["ratio_to_best_peer_eager"]
        print(f"  tasknorm is {best} times as fast as the better of the others, {eager} times in eager mode", end=", ")
        print(f"with {result['at_once']} tasks at once and {result['memory_ratio_to_best_peer']} times their memory")


if __name__ == "__main__":
    main()
