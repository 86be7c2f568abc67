"""MAML: Finn et al., 2017, "Model-agnostic meta-learning for fast adaptation of deep networks"; section 5.1.

The scaling of the loss and the choice of adapted weights follow the authors' code (cbfinn/maml), as in the TaskNorm
paper.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from tasknorm.chunks import InParts, fitted, unchunked, whole
from tasknorm.episode import Episode
from tasknorm.learners.asked import Asked, Values
from tasknorm.learners.classifier_loop import ClassifierLoop, check_classifier
from tasknorm.learners.inner_loop import InnerLoop
from tasknorm.learners.learner import Learner, Outcome, OwnSettings
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.step_norms import State, StepNorms, later_norms
from tasknorm.learners.tasks import Tasks, check_images, check_way, given_context, groups, pixels
from tasknorm.nets import NormMaker
from tasknorm.norms import RunningMean
from tasknorm.phase import context

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
TOGETHER = 1 << 14  # pixels of a context up to which tasks are faster together on a CPU


class MAMLSettings(OwnSettings):
    """The settings that MAML alone has."""

    inner_lr: float | None = Field(
        None, gt=0, description="MAML: learning rate of the inner loop; its loss is `way` times the mean cross-entropy."
    )
    inner_steps: int | None = Field(None, ge=1, description="MAML: number of inner steps at meta-train.")
    test_steps: int | None = Field(None, ge=1, description="MAML: number of inner steps at meta-test.")
    first_order: bool | None = Field(None, description="MAML: treat inner gradients as constants (first-order MAML).")
    at_once: int | None = Field(
        None,
        ge=1,
        description="MAML: largest number of tasks that run together; fewer need less memory. "
        "Default: all, or one if its context is large and the device a CPU.",
    )
    anil: bool | None = Field(
        None, description="MAML: adapt the classifier alone, on features computed once for each task (ANIL)."
    )
    step_norms: bool | None = Field(
        None, description="MAML: give each inner step norms of its own: moments, offset, scale and alpha (MAML++)."
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
        at_once: largest number of tasks that run together; fewer need less memory. By default all, but on a CPU one at
            a time if contexts are large, which is then faster. In second order, `learn` computes the gradients of so
            many tasks at once, and keeps no graph of them.
        anil: adapt the net's module `classifier` alone (ANIL, Raghu et al., 2020). All else in the net sees a task
            once, so that further steps cost next to nothing.
        step_norms: give each inner step norms of its own, which begin as copies of the net's: running moments, offset,
            scale and alpha (MAML++, Antoniou et al., 2019, "How to train your MAML"). As in its authors' code, the
            targets pass through the norms of the last step. Steps beyond `inner_steps` have those of the last.
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
    takes_parts = True
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
        anil: bool = False,
        step_norms: bool = False,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (("inner_steps", inner_steps), ("test_steps", test_steps), ("at_once", at_once)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if compiled and not first_order:
            raise ValueError("compiled=True needs first_order=True: torch's compiler has no second derivatives")
        if anil and step_norms:
            raise ValueError("anil=True contradicts step_norms=True: its norms see each task once; leave one out")
        if anil and compiled:
            raise ValueError("anil=True contradicts compiled=True: a hook takes the features; leave one out")
        if anil:
            check_classifier(net)
        self.net = net
        self.inner_lr = inner_lr
        self.inner_steps = inner_steps
        self.test_steps = inner_steps if test_steps is None else test_steps
        self.first_order = first_order
        self.at_once = at_once
        self.anil = anil
        self.later_norms = later_norms(net, inner_steps if step_norms else 1)
        self.compiled = compiled

    @property
    def target_net(self) -> nn.Module:
        """The net; the learner has no other."""
        return self.net

    def forward(self, episode: Episode) -> Tensor:
        """Logits of the episode's targets after the last inner step, `(target, way)`."""
        (tasks,) = groups([episode])
        self._check(tasks)
        loop = self._loop
        mean, running = _Running(loop, 1), loop.norms.all_running()
        logits = loop.logits(tasks, self._steps(), running)
        mean.add(running, 1)
        mean.write()
        return logits[0]

    def learn(self, episodes: Sequence[Episode]) -> Outcome:
        """Losses and logits of a meta-batch (see `Learner`)."""
        losses: list[Tensor] = []
        logits: list[Tensor] = []
        loop = self._loop
        mean = _Running(loop, len(episodes))
        for tasks in groups(episodes, self._at_once(loop, episodes)):
            self._check(tasks)
            running = loop.norms.all_running()
            found, scores = loop.losses(tasks, self._steps(), running)
            losses.append(found)
            logits.extend(scores)
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
        loop = self._loop
        for tasks in groups(episodes, self._at_once(loop, episodes)):
            self._check(tasks)
            arriving = sizes or [tasks.target_y.shape[1]]
            logits.extend(loop.step_logits(tasks, steps or self.test_steps, arriving))
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
        adapted = learner._loop.adapted(context_x, context_y, learner.test_steps)
        learner.net.load_state_dict(adapted, strict=False)
        with context(learner.net):
            learner.net(context_x)
        return Predictor(unchunked(learner.net))

    @classmethod
    def of(cls, net: nn.Module, norm: NormMaker, own: Mapping[str, Any], *, compiled: bool = False) -> Self:
        """The learner of a run (see `Learner`)."""
        return cls(net, compiled=compiled, **own)

    @classmethod
    def title(cls, own: Any) -> str:
        """The name of the algorithm: two options make another one of it."""
        return "ANIL" if own.anil else "MAML with step norms" if own.step_norms else cls.label

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
        if not settings.net.startswith("maml-"):
            yield "net", "learner=maml, which needs a net with a classifier: maml-omniglot or maml-imagenet"
        if settings.train_way != settings.way:
            yield "train_way", f"way={settings.way}: {one_size}"
        if settings.sampling == "variable":
            yield "sampling", f"learner=maml: {one_size}"
        elif settings.tested_ways != (settings.way,):
            yield "test_ways", f"way={settings.way}: {one_size}"
        if settings.recompute:
            yield (
                "recompute",
                "learner=maml, whose weights change within a task (to save memory, lower at_once or set chunk)",
            )
        if settings.compile and not settings.own.first_order:
            yield "compile", "first_order=False"
        if settings.own.anil and settings.compile:
            yield "compile", "anil=True"
        if settings.own.anil and settings.own.step_norms:
            yield "step_norms", "anil=True, whose norms see each task once"

    @property
    def _loop(self) -> InnerLoop:
        kind = ClassifierLoop if self.anil else InnerLoop
        norms = StepNorms(self.net, self.later_norms)
        return kind(self.net, self.inner_lr, first_order=self.first_order, compiled=self.compiled, norms=norms)

    def _steps(self) -> int:
        return self.inner_steps if self.training else self.test_steps

    def _at_once(self, loop: InnerLoop, episodes: Sequence[Episode]) -> int | None:
        if not loop.runs_together:
            return 1
        large = any(one.context_x.device.type == "cpu" and pixels(one.context_x) > TOGETHER for one in episodes)
        return 1 if large and self.at_once is None else self.at_once

    def _check(self, tasks: Tasks) -> None:
        check_way(self.net, tasks.way)
        check_images(self.net, tasks.context_x.flatten(0, 1))
        check_images(self.net, tasks.target_x.flatten(0, 1))


class _Running:
    """The running moments of all steps' norms, whose mean over the tasks of a meta-batch is kept."""

    def __init__(self, loop: InnerLoop, tasks: int) -> None:
        self._loop = loop
        self._mean = RunningMean(_flat(loop.norms.all_running()), tasks)

    def add(self, states: Sequence[State], count: int) -> None:
        """Add what some tasks made of the moments."""
        self._mean.add(_flat(states), count)

    def write(self) -> None:
        """Set the moments to their mean."""
        self._mean.write()


def _flat(states: Sequence[State]) -> State:
    return {f"{step}.{name}": tensor for step, state in enumerate(states) for name, tensor in state.items()}
