"""The inner loop of MAML: gradient descent on tasks' contexts, each task from the same initial weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from tasknorm.kernels import TaskLayer, as_adapted, images_channels_last, is_channels_last, weight_channels_last
from tasknorm.learners.losses_now import losses_now
from tasknorm.learners.step_norms import State, StepNorms
from tasknorm.learners.tasks import Tasks
from tasknorm.norms import Norm, RunningMean
from tasknorm.phase import contexts, joint


class InnerLoop:
    """Gradient descent of all weights of a net but those of its norms.

    Args:
        net: from images to logits, with norms.
        lr: the learning rate.
        first_order: treat the gradients as constants in the outer loop.
        compiled: compile the net's passes.
        norms: the norms of each step.

    Attributes:
        adapted_names: names of the parameters that adapt.
        runs_together: whether all layers with weights serve several tasks at once.
    """

    def __init__(self, net: nn.Module, lr: float, *, first_order: bool, compiled: bool, norms: StepNorms) -> None:
        self.net, self.lr, self.first_order, self.compiled, self.norms = net, lr, first_order, compiled, norms
        self._parameters = dict(net.named_parameters())
        self._are_tied = sum(1 for _ in net.named_parameters(remove_duplicate=False)) > len(self._parameters)
        self.adapted_names = self._adapted_names()
        self.runs_together = all(
            isinstance(module, (*TaskLayer, Norm)) or not list(module.parameters(recurse=False))
            for module in net.modules()
        )

    def logits(self, tasks: Tasks, steps: int, running: Sequence[State]) -> Tensor:
        """Logits `(tasks, target, way)` after the last step; `running` is updated (see `descent`)."""
        tied = self.first_order and tasks.count > 1
        with torch.set_grad_enabled(torch.is_grad_enabled() and not tied):
            *_, weights = self.descent(
                tasks.context_x, tasks.context_y, self.initial_weights(tasks.count), steps, running
            )
        if tied:
            weights = as_adapted(weights)
        return self.target_logits(tasks, weights, running, steps - 1)

    def losses(self, tasks: Tasks, steps: int, running: Sequence[State]) -> tuple[Tensor, Tensor]:
        """Losses `(tasks,)` and, without gradient, logits `(tasks, target, way)`.

        In second order the gradients are computed at once, those of the targets one task at a time: what stays in
        memory is neither the graph of these tasks nor that of their targets.
        """
        if self.first_order or not torch.is_grad_enabled():
            logits = self.logits(tasks, steps, running)
            return tasks.losses(logits), logits.detach()
        outer = [*self.net.parameters(), *(p for step in range(steps) for p in self.norms.parameters(step).values())]
        learned = list({id(p): p for p in outer if p.requires_grad}.values())
        before = [{name: tensor.clone() for name, tensor in state.items()} for state in running]
        moved: list[list[State]] = []

        def compute() -> tuple[Tensor, Tensor]:
            moved.append([dict(state) for state in before])
            with self.norms.twice():
                return self._second_order(tasks, steps, moved[-1])

        found = losses_now(compute, learned)
        for state, new in zip(running, moved[0], strict=True):
            state.update(new)
        return found

    def _second_order(self, tasks: Tasks, steps: int, running: Sequence[State]) -> tuple[Tensor, Tensor]:
        *_, weights = self.descent(tasks.context_x, tasks.context_y, self.initial_weights(tasks.count), steps, running)
        outer = list(self.norms.parameters(steps - 1).values())
        last = self.norms.of(running, steps - 1)
        mean = RunningMean(last, tasks.count)
        found = []
        for one, own in zip(tasks.each(), _each(weights, tasks.count, self.runs_together), strict=True):
            moved = [dict(state) for state in running]
            at = {name: weight.detach().requires_grad_() for name, weight in own.items()}

            def compute(one: Tasks = one, at: State = at, moved: list[State] = moved) -> tuple[Tensor, Tensor]:
                logits = self.target_logits(one, at, moved, steps - 1)
                return one.losses(logits), logits

            found.append(losses_now(compute, [*own.values(), *outer], [*at.values(), *outer]))
            mean.add(self.norms.of(moved, steps - 1), 1)
        mean.write()
        losses, logits = zip(*found, strict=True)
        return torch.cat(losses), torch.cat(logits)

    def step_logits(self, tasks: Tasks, steps: int, sizes: Sequence[int]) -> Tensor:
        """Logits after each step, `(tasks, steps, target, way)`, of targets that arrive in groups of these sizes."""
        sets = tasks.target_sets(sizes)
        weights = self.initial_weights(tasks.count)
        passes = []
        for step, adapted in enumerate(self.descent(tasks.context_x, tasks.context_y, weights, steps)):
            passes.append(
                torch.cat([self.target_logits(one, adapted, self.norms.all_running(), step) for one in sets], 1)
            )
        return torch.stack(passes, 1)

    def adapted(self, x: Tensor, y: Tensor, steps: int) -> State:
        """What the net needs to predict after the last step: its weights for one task, and its norms' state."""
        weights = self.initial_weights(1)
        *_, weights = self.descent(x[None], y[None], weights, steps)
        return self.norms.state(steps - 1) | {
            name: w[0] if w.ndim > self.net.get_parameter(name).ndim else w for name, w in weights.items()
        }

    def descent(
        self, x: Tensor, y: Tensor, weights: State, steps: int, running: Sequence[State] | None = None
    ) -> Iterator[State]:
        """The weights after each step.

        Args:
            x: contexts `(tasks, context, ...)`.
            y: labels `(tasks, context)`.
            weights: the initial ones.
            steps: number of steps.
            running: the norms' running moments (see `StepNorms`), which the first pass through each norm updates.
        """
        tasks, size = y.shape
        x, y = _normal(x.flatten(0, 1)), _normal(y.flatten())
        outer = torch.is_grad_enabled()
        higher = outer and not self.first_order
        shot = size / (int(y.max()) + 1)
        for step in range(steps):
            is_first = step < len(running or ())  # through these norms
            moments = running[step] if running and is_first else self.norms.running(step)
            with torch.inference_mode(False), torch.enable_grad(), contexts(self.net, tasks):
                at = weights if higher else {name: w.detach().requires_grad_() for name, w in weights.items()}
                logits = self.call(at, moments, x, step, outer=higher)
                loss = F.cross_entropy(logits, y, reduction="sum") / shot
                if higher:  # to add gradients that have their factor already saves a pass over them in the backward
                    loss = loss * -self.lr
                gradients = torch.autograd.grad(loss, list(at.values()), create_graph=higher)
            with torch.inference_mode(False), torch.set_grad_enabled(outer):
                weights = {
                    name: w + gradient if higher else torch.sub(w, gradient, alpha=self.lr)
                    for (name, w), gradient in zip(weights.items(), gradients, strict=True)
                }
            yield weights

    def target_logits(self, tasks: Tasks, weights: State, running: Sequence[State], step: int) -> Tensor:
        """Logits `(tasks, target, way)` at weights adapted by this step, the first being 0.

        If no norm needs the context, the step's running moments are updated.
        """
        if self.norms.need_context:
            images = torch.cat((tasks.context_x, tasks.target_x), 1)
            with joint(self.net, tasks.context_size, tasks.count):
                logits = self.call(weights, self.norms.running(step), images.flatten(0, 1), step)
        else:
            with contexts(self.net, tasks.count):  # normalises the targets as a set of their own
                logits = self.call(weights, self.norms.of(running, step), tasks.target_x.flatten(0, 1), step)
        return logits.view(tasks.count, -1, logits.shape[-1])[:, -tasks.target_y.shape[1] :]

    def call(self, weights: State, running: State, x: Tensor, step: int, *, outer: bool = True) -> Tensor:
        """The net's logits at these weights, with the norms of a step; `running` is updated in place."""
        for name in running:
            running[name] = running[name].clone()
        parameters = self.norms.state(step)
        if not outer:
            parameters |= {name: p.detach() for name, p in self._parameters.items()} | {
                name: tensor.detach() for name, tensor in parameters.items()
            }
        if any(map(is_channels_last, weights.values())):
            x = images_channels_last(x)
        call: Any = _compiled_call() if self.compiled else functional_call
        logits: Tensor = call(self.net, parameters | weights | running, (x,), tie_weights=self._are_tied)
        return logits

    def initial_weights(self, tasks: int) -> State:
        """The weights that adapt, with a task axis if tasks run together."""
        weights: State = {name: p for name, p in self._parameters.items() if name in self.adapted_names}
        if self.runs_together:
            weights = {name: weight_channels_last(weight) for name, weight in weights.items()}
        alone = tasks == 1 and (self.first_order or not self.runs_together)
        return weights if alone else {name: weight.expand(tasks, *weight.shape) for name, weight in weights.items()}

    def _adapted_names(self) -> set[str]:
        """Names of the parameters that adapt."""
        return {name for name, p in self._parameters.items() if p.requires_grad} - self.norms.parameter_names


def _each(weights: State, tasks: int, have_axis: bool) -> list[State]:
    """The weights of each task, which keep their task axis, of size 1."""
    if not have_axis:
        return [weights]
    parts = {name: _split(weight) for name, weight in weights.items()}
    return [{name: part[task] for name, part in parts.items()} for task in range(tasks)]


def _split(weight: Tensor) -> list[Tensor]:
    """Each task's part of a weight, whose gradients come together with the channels last, as the kernels like them."""
    if weight.ndim != 5:
        return list(weight.split(1))
    return [part.permute(0, 1, 4, 2, 3) for part in weight.permute(0, 1, 3, 4, 2).split(1)]


def _normal(x: Tensor) -> Tensor:
    """The same values as a tensor that autograd accepts, even if it was made in inference mode."""
    with torch.inference_mode(False):
        return x.clone() if x.is_inference() else x


@cache
def _compiled_call() -> Any:
    return torch.compile(functional_call, dynamic=False)
