"""One meta-batch: the gradient of its mean loss, and one update of the running moments, however it is divided.

Running moments move to the mean over tasks of what each part of the meta-batch makes of them, so that neither the
number of parts nor that of processes changes what is learned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tasknorm.episode import Episode
from tasknorm.errors import DivergedError
from tasknorm.learners import Learner, accuracy
from tasknorm.machine import Processes
from tasknorm.norms import RUNNING, Norm, RunningMean
from tasknorm.settings import Settings


class Step(NamedTuple):
    """What a meta-batch gave: mean loss and accuracy over its tasks, and whether a process was asked to stop."""

    loss: float
    accuracy: float
    stop: bool


def meta_step(
    learner: Learner,
    episodes: Sequence[Episode],
    settings: Settings,
    processes: Processes,
    *,
    first: int = 0,
    stop: bool = False,
) -> Step:
    """Leave the meta-batch's gradient in the parameters, and move the running moments once.

    Args:
        learner: in `train()`.
        episodes: this process's share of the meta-batch.
        settings: the run's settings; `meta_batch`, `sampling`, `accumulate` and `bf16` are used.
        processes: the processes that hold the other shares.
        first: the number of the first of these episodes, for messages.
        stop: whether this process was asked to stop; all learn of it.

    Raises:
        DivergedError: names the task and the layer.
    """
    running = _Running(learner, settings.meta_batch)
    losses, correct = 0.0, 0.0
    # Variable tasks differ in shape and pass one by one anyway: the graph of one is all that is kept.
    parts = len(episodes) if settings.sampling == "variable" else settings.accumulate
    for part in _parts(len(episodes), parts):
        chosen = episodes[part.start : part.stop]
        with running.moved_by(len(chosen)), torch.autocast(_device(learner), torch.bfloat16, settings.bf16):
            outcome = learner.learn(chosen)
        _check_losses(learner, outcome.losses, chosen, first + part.start)
        (outcome.losses.sum() / settings.meta_batch).backward()
        losses += outcome.losses.detach().double().sum().item()
        correct += sum(map(accuracy, outcome.logits, (episode.target_y for episode in chosen)))
    totals = torch.tensor([losses, correct, float(stop)], dtype=torch.float64)
    gradients = {name: p.grad for name, p in learner.named_parameters() if p.grad is not None}
    processes.add([totals, *running.mean.sums.values(), *gradients.values()])
    running.mean.write()
    _check_gradients(gradients, first)
    return Step(float(totals[0]) / settings.meta_batch, float(totals[1]) / settings.meta_batch, bool(totals[2]))


class _Running:
    """The running moments of a learner's norms: as they were before the meta-batch, and the mean of its parts."""

    def __init__(self, learner: nn.Module, tasks: int) -> None:
        norms = {name: module for name, module in learner.named_modules() if isinstance(module, Norm)}
        self._buffers = {f"{name}.{kind}": getattr(norm, kind) for name, norm in norms.items() for kind in RUNNING}
        self._before = {name: buffer.clone() for name, buffer in self._buffers.items()}
        self.mean = RunningMean(self._buffers, tasks)

    @contextmanager
    def moved_by(self, count: int) -> Iterator[None]:
        """The passes inside begin with the moments of before; what they leave counts as that of `count` tasks."""
        for name, buffer in self._buffers.items():
            buffer.copy_(self._before[name])
        yield
        self.mean.add(self._buffers, count)


def _parts(tasks: int, parts: int) -> Iterator[range]:
    size = -(-tasks // parts)
    for start in range(0, tasks, size):
        yield range(start, min(start + size, tasks))


def _device(learner: nn.Module) -> str:
    return next(learner.parameters()).device.type


def _check_losses(learner: Learner, losses: Tensor, episodes: Sequence[Episode], first: int) -> None:
    for task, loss in enumerate(losses.tolist()):
        if not math.isfinite(loss):
            layer = first_bad_layer(learner, episodes[task])
            raise DivergedError(f"the loss of task {first + task} is {loss}, {layer}")


def _check_gradients(gradients: Mapping[str, Tensor], first: int) -> None:
    bad = [name for name, gradient in gradients.items() if not gradient.isfinite().all()]
    if bad:
        raise DivergedError(f"the gradient of {bad[0]} is not finite in the meta-batch of task {first}")


def first_bad_layer(learner: Learner, episode: Episode) -> str:
    """Where numbers stop being finite in this episode, in words."""
    if not (episode.context_x.isfinite().all() and episode.target_x.isfinite().all()):
        return "and its images are not finite either"
    found: list[str] = []

    def watched(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not output.isfinite().all():
                found.append(name)

        return hook

    layers = [(name, layer) for name, layer in learner.named_modules() if not list(layer.children())]
    hooks = [layer.register_forward_hook(watched(name)) for name, layer in layers]
    try:
        with torch.no_grad():
            learner.learn([episode])
    except ValueError as error:  # norms refuse an alpha that is not finite
        return str(error)
    finally:
        for hook in hooks:
            hook.remove()
    return f"from layer {found[0]} on" if found else "though every layer's output is finite"
