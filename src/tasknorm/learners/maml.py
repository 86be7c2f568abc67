"""MAML: Finn et al., 2017, "Model-agnostic meta-learning for fast adaptation of deep networks"; section 5.1.

The scaling of the loss and the choice of adapted weights follow the authors' code (cbfinn/maml), as in the TaskNorm
paper.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from tasknorm.chunks import InParts, fitted, unchunked, whole
from tasknorm.episode import Episode
from tasknorm.kernels import TaskLayer, as_adapted, images_channels_last, is_channels_last, weight_channels_last
from tasknorm.learners.asked import Asked, Values
from tasknorm.learners.learner import Learner, Outcome, OwnSettings
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.tasks import Tasks, check_images, check_way, given_context, groups
from tasknorm.nets import NormMaker
from tasknorm.norms import RUNNING, Norm, RunningMean
from tasknorm.phase import context, contexts, joint

State = dict[str, Tensor]  # tensors of the net by name

PAPER: Values = {"affine": "offset", "eps": 1e-3, "first_order": True, "test_steps": 10, "validate_every": 500}
ON_CHARACTERS: Values = {"net": "maml-omniglot", "meta_batch": 32, "inner_lr": 0.4, "inner_steps": 1}
OF_MANY_WAYS: Values = {"meta_batch": 16, "inner_lr": 0.1, "inner_steps": 5}  # 20-way characters
ON_PHOTOS: Values = {
    "net": "maml-imagenet",
    "meta_batch": 4,
    "inner_lr": 0.01,
    "inner_steps": 5,
    "train_targets": 15,
    "clip": 10.0,
}


class MAMLSettings(OwnSettings):
    """The settings that MAML alone has."""

    inner_lr: float | None = Field(
        None, gt=0, description="MAML: learning rate of the inner loop; its loss is `way` times the mean cross-entropy."
    )
    inner_steps: int | None = Field(None, ge=1, description="MAML: number of inner steps at meta-train.")
    test_steps: int | None = Field(None, ge=1, description="MAML: number of inner steps at meta-test.")
    first_order: bool | None = Field(None, description="MAML: treat inner gradients as constants (first-order MAML).")
    at_once: int | None = Field(
        None, ge=1, description="MAML: largest number of tasks that run together; fewer need less memory."
    )


class MAML(Learner):
    """Gradient descent on the context from initial weights that are learned.

        inner loss = 1/K sum over the context of the cross-entropy        (K context examples a class)
        theta_s    = theta_(s-1) - inner_lr grad(inner loss)              for each inner step s
        task loss  = 1/K sum over the targets of the cross-entropy at the last theta

    The inner loop adapts all weights of the net but those of its norms; gamma, beta and alpha are learned by the outer
    loop alone. At adapted weights, context and targets pass jointly, so that context moments are those of the adapted
    weights; if no norm needs the context, the targets pass alone. Tasks of equal shape run together if all layers with
    weights are of `task_layers`; with any other net, tasks run one at a time.

    Running moments change once for each call of `learn`. Each task updates its own copy of them twice: with the context
    at the initial weights, then with the targets at the adapted weights. The mean of these copies is kept.

    Args:
        net: a net from images to logits, with norms; tasks must fit its `way` and `image_shape`, if it has them.
        inner_lr: learning rate of the inner loop, whose loss, as in the authors' code, is `way` times the mean
            cross-entropy.
        inner_steps: number of inner steps at meta-train.
        test_steps: number of inner steps at meta-test; `inner_steps` by default.
        first_order: treat the inner gradients as constants in the outer loop, as the TaskNorm paper does.
        at_once: largest number of tasks that run together; fewer need less memory.
        compiled: compile the net's passes (first order only); takes a minute at the start.

    >>> from tasknorm import NORMS, nets
    >>> learner = MAML(nets.maml_omniglot(NORMS["TaskNorm-I"]), inner_lr=0.4)
    >>> x, y = torch.rand(5, 1, 28, 28), torch.arange(5)
    >>> learner(Episode(x, y, x, y)).shape
    torch.Size([5, 5])
    """

    label = "MAML"
    own_settings = MAMLSettings
    has_steps = True
    machine_settings = ("at_once",)

    def __init__(
        self,
        net: nn.Module,
        *,
        inner_lr: float = 0.4,
        inner_steps: int = 1,
        test_steps: int | None = None,
        first_order: bool = True,
        at_once: int | None = None,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (("inner_steps", inner_steps), ("test_steps", test_steps), ("at_once", at_once)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if compiled and not first_order:
            raise ValueError("compiled=True needs first_order=True: torch's compiler has no second derivatives")
        self.net = net
        self.inner_lr = inner_lr
        self.inner_steps = inner_steps
        self.test_steps = inner_steps if test_steps is None else test_steps
        self.first_order = first_order
        self.at_once = at_once
        self.compiled = compiled

    @property
    def target_net(self) -> nn.Module:
        """The net; the learner has no other."""
        return self.net

    def forward(self, episode: Episode) -> Tensor:
        """Logits of the episode's targets after the last inner step, `(target, way)`."""
        (tasks,) = groups([episode])
        mean = RunningMean(self._running(), 1)
        logits, running = self._learn(tasks)
        mean.add(running, 1)
        mean.write()
        return logits[0]

    def learn(self, episodes: Sequence[Episode]) -> Outcome:
        """Losses and logits of a meta-batch (see `Learner`)."""
        losses: list[Tensor] = []
        logits: list[Tensor] = []
        mean = RunningMean(self._running(), len(episodes))
        for tasks in groups(episodes, self._at_once()):
            scores, running = self._learn(tasks)
            losses.append(tasks.cross_entropy(scores).sum(1) / tasks.shot)
            logits.extend(scores.detach())
            mean.add(running, tasks.count)
        mean.write()
        return Outcome(torch.cat(losses), logits)

    @torch.no_grad()
    def steps(
        self, episodes: Sequence[Episode], steps: int | None = None, sizes: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Logits of each episode's targets after each inner step, `(steps, target, way)`; the learner stays as it is.

        Args:
            episodes: the tasks.
            steps: number of inner steps; `test_steps` if left out.
            sizes: sizes of the consecutive groups in which each task's targets arrive; all at once if left out.
        """
        logits: list[Tensor] = []
        for tasks in groups(episodes, self._at_once()):
            self._check(tasks)
            weights = self._initial_weights(tasks.count)
            sets = tasks.target_sets(sizes or [tasks.target_y.shape[1]])
            passes = [
                torch.cat([self._targets(one, adapted, self._running()) for one in sets], 1)
                for adapted in self._descent(tasks.context_x, tasks.context_y, weights, steps or self.test_steps)
            ]
            logits.extend(torch.stack(passes, 1))
        return logits

    def step_logits(self, episodes: Sequence[Episode], sizes: Sequence[Sequence[int]] | None = None) -> list[Tensor]:
        """Logits after each of the inner steps (see `Learner`); each task adapts once, however its targets arrive."""
        if sizes is None:
            return self.steps(episodes)
        # Tasks with the same sizes pass together, as many as with all targets at once: their adapted weights are then
        # the same to the last bit.
        if all(each == sizes[0] for each in sizes):
            return self.steps(episodes, sizes=sizes[0])
        return [self.steps([episode], sizes=each)[0] for episode, each in zip(episodes, sizes, strict=True)]

    @torch.no_grad()
    def adapt(self, context_x: Tensor | InParts, context_y: Tensor) -> Predictor:
        """A predictor for the task of this context (see `Learner`)."""
        given, context_y, way = given_context(self.net, context_x, context_y)
        check_way(self.net, way)
        learner = copy.deepcopy(self).eval()
        context_x = whole(fitted(learner.net, given))
        *_, weights = learner._descent(
            context_x[None], context_y[None], learner._initial_weights(1), learner.test_steps
        )
        learner.net.load_state_dict(weights, strict=False)
        with context(learner.net):
            learner.net(context_x)
        return Predictor(unchunked(learner.net))

    @classmethod
    def of(cls, net: nn.Module, norm: NormMaker, own: Mapping[str, Any], *, compiled: bool = False) -> Self:
        """The learner of a run (see `Learner`)."""
        return cls(net, compiled=compiled, **own)

    @classmethod
    def net_options(cls, settings: Any) -> dict[str, Any]:
        """The size of the net's classifier."""
        return {"way": settings.way}

    @classmethod
    def papers(cls, asked: Asked) -> Values:
        """The reference code of Finn et al., as the TaskNorm paper used it (appendix B)."""
        values = PAPER | {"train_way": asked.way, "targets": asked.shot, "train_targets": asked.shot}
        values |= ON_CHARACTERS if asked.characters else ON_PHOTOS
        values |= OF_MANY_WAYS if asked.characters and asked.way >= 20 else {}
        return values | {"rotate": asked.turned}

    @classmethod
    def contradictions(cls, settings: Any) -> Iterator[tuple[str, str]]:
        """Values that do not suit a classifier of one size within the net, or weights that change within a task."""
        one_size = "MAML's classifier has one size"
        if not settings.net.startswith("maml"):
            yield "net", "learner=maml, which needs a net with a classifier: maml-omniglot or maml-imagenet"
        if settings.train_way != settings.way:
            yield "train_way", f"way={settings.way}: {one_size}"
        if settings.sampling == "variable":
            yield "sampling", f"learner=maml: {one_size}"
        elif settings.tested_ways != (settings.way,):
            yield "test_ways", f"way={settings.way}: {one_size}"
        if settings.recompute:
            yield "recompute", "learner=maml, whose weights change within a task (to save memory, lower at_once)"
        if settings.compile and not settings.own.first_order:
            yield "compile", "first_order=False"

    def _learn(self, tasks: Tasks) -> tuple[Tensor, State]:
        """Logits `(tasks, target, way)` after the last step, and the updated running moments."""
        self._check(tasks)
        running = self._running()
        steps = self.inner_steps if self.training else self.test_steps
        tied = self.first_order and tasks.count > 1
        with torch.set_grad_enabled(torch.is_grad_enabled() and not tied):
            *_, weights = self._descent(
                tasks.context_x, tasks.context_y, self._initial_weights(tasks.count), steps, running
            )
        if tied:
            weights = as_adapted(weights)
        return self._targets(tasks, weights, running), running

    def _descent(
        self, x: Tensor, y: Tensor, weights: State, steps: int, running: State | None = None
    ) -> Iterator[State]:
        """The weights after each inner step; the first step's context pass updates `running`."""
        tasks, size = y.shape
        x, y = _normal(x.flatten(0, 1)), _normal(y.flatten())
        outer = torch.is_grad_enabled()
        higher = outer and not self.first_order
        before = self._running()
        shot = size / (int(y.max()) + 1)
        for step in range(steps):
            moments = running if step == 0 and running is not None else dict(before)
            with torch.inference_mode(False), torch.enable_grad(), contexts(self.net, tasks):
                at = weights if higher else {name: w.detach().requires_grad_() for name, w in weights.items()}
                logits = self._pass(at, moments, x, outer=higher)
                loss = F.cross_entropy(logits, y, reduction="sum") / shot
                gradients = torch.autograd.grad(loss, list(at.values()), create_graph=higher)
            with torch.inference_mode(False), torch.set_grad_enabled(outer):
                weights = {
                    name: torch.sub(w, gradient, alpha=self.inner_lr)
                    for (name, w), gradient in zip(weights.items(), gradients, strict=True)
                }
            yield weights

    def _targets(self, tasks: Tasks, weights: State, running: State) -> Tensor:
        """Logits `(tasks, target, way)` at adapted weights; if no norm needs the context, `running` is updated."""
        if any(norm.needs_context for norm in self._norms().values()):
            images = torch.cat((tasks.context_x, tasks.target_x), 1)
            with joint(self.net, tasks.context_size, tasks.count):
                logits = self._pass(weights, self._running(), images.flatten(0, 1))
        else:
            with contexts(self.net, tasks.count):  # normalises the targets as a set of their own
                logits = self._pass(weights, running, tasks.target_x.flatten(0, 1))
        return logits.view(tasks.count, -1, logits.shape[-1])[:, -tasks.target_y.shape[1] :]

    def _pass(self, weights: State, running: State, x: Tensor, *, outer: bool = True) -> Tensor:
        """The net's logits at these weights; `running` is updated in place."""
        for name in running:
            running[name] = running[name].clone()
        parameters = {} if outer else {name: p.detach() for name, p in self.net.named_parameters()}
        if any(map(is_channels_last, weights.values())):
            x = images_channels_last(x)
        call: Any = _compiled_call() if self.compiled else functional_call
        logits: Tensor = call(self.net, parameters | weights | running, (x,))
        return logits

    def _norms(self) -> dict[str, Norm]:
        return {name: module for name, module in self.net.named_modules() if isinstance(module, Norm)}

    def _initial_weights(self, tasks: int) -> State:
        """The weights that the inner loop adapts, with a task axis if there are several tasks."""
        kept = {id(parameter) for norm in self._norms().values() for parameter in norm.parameters()}
        weights: State = {name: p for name, p in self.net.named_parameters() if id(p) not in kept and p.requires_grad}
        if self._runs_together():
            weights = {name: weight_channels_last(weight) for name, weight in weights.items()}
        if tasks == 1:
            return weights
        return {name: weight.expand(tasks, *weight.shape) for name, weight in weights.items()}

    def _running(self) -> State:
        """The norms' running moments at meta-train, by their names in the net."""
        if not self.training:
            return {}
        moving = {name: norm for name, norm in self._norms().items() if norm.tracks}
        return {f"{name}.{kind}": getattr(norm, kind) for name, norm in moving.items() for kind in RUNNING}

    def _runs_together(self) -> bool:
        return all(
            isinstance(module, (*TaskLayer, Norm)) or not list(module.parameters(recurse=False))
            for module in self.net.modules()
        )

    def _at_once(self) -> int | None:
        return self.at_once if self._runs_together() else 1

    def _check(self, tasks: Tasks) -> None:
        check_way(self.net, tasks.way)
        check_images(self.net, tasks.context_x.flatten(0, 1))
        check_images(self.net, tasks.target_x.flatten(0, 1))


def _normal(x: Tensor) -> Tensor:
    """The same values as a tensor that autograd accepts, even if it was made in inference mode."""
    with torch.inference_mode(False):
        return x.clone() if x.is_inference() else x


@cache
def _compiled_call() -> Any:
    return torch.compile(functional_call, dynamic=False)
