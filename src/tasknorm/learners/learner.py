"""What a learner is: what MAML, ProtoNets, CNAPs and NCM share (section 2.1), and what each says of itself.

A learner is one file here and one entry in `LEARNERS`: settings, commands, tables and pages ask the class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from tasknorm.episode import Episode
from tasknorm.learners.papers import Asked
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.tasks import Tasks, groups
from tasknorm.nets import NormMaker


class Outcome(NamedTuple):
    """What a learner makes of a meta-batch.

    Args:
        losses: the loss of each task, `(tasks,)`; their mean over the meta-batch is what to minimise.
        logits: of each task's targets, `(target, way)`, without graph.
    """

    losses: Tensor
    logits: list[Tensor]


class OwnSettings(BaseModel):
    """The settings that one learner alone has; a learner without any has this."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Learner(nn.Module):
    """A few-shot learner: in `train()` it meta-trains, in `eval()` it meta-tests.

    A subclass needs `adapt`, and one of two: `logits`, if it learns a task by forward passes, or else `forward` and
    `learn`. The rest has defaults, and is asked for by the commands.

    Attributes:
        label: its name as the papers print it.
        own_settings: the settings that it alone has.
        meta_trained: whether it has a meta-training; False for one that takes its weights as they are.
        wants_pretrained: whether its net should begin with pretrained weights.
        has_steps: whether it predicts after each of several inner steps, as MAML.
        machine_settings: those of its own settings that change memory and speed alone.
        converted: which norms to convert when one training serves several norms, by a pattern; None for all.
        test_steps: inner steps at meta-test.
        reduction: of a task's cross-entropy over its targets.
    """

    label: ClassVar[str] = ""
    own_settings: ClassVar[type[OwnSettings]] = OwnSettings
    meta_trained: ClassVar[bool] = True
    wants_pretrained: ClassVar[bool] = False
    has_steps: ClassVar[bool] = False
    machine_settings: ClassVar[tuple[str, ...]] = ()
    converted: ClassVar[str | None] = None
    test_steps: int = 1
    reduction: Literal["mean", "sum"] = "mean"

    # What it computes

    def logits(self, tasks: Tasks) -> Tensor:
        """Logits `(tasks, target, way)` of tasks of one shape."""
        raise NotImplementedError(f"{type(self).__name__} must say what it predicts: define `logits`, or `learn`")

    def adapt(self, context_x: Tensor, context_y: Tensor) -> Predictor:
        """A predictor for the task of this context, for targets that come later, as at meta-test.

        Args:
            context_x: images `(context, ...)`, floats that are scaled as in training; a numpy array will do.
            context_y: their labels `(context,)`, integers from 0 to way - 1 without gaps; a list will do.

        Raises:
            ValueError: if images are bytes, numbers from 0 to 255 or of another shape, or labels have gaps.
        """
        raise NotImplementedError(f"{type(self).__name__} must say how it adapts to a context: define `adapt`")

    def forward(self, episode: Episode) -> Tensor:
        """Logits of the episode's targets, `(target, way)`."""
        (tasks,) = groups([episode])
        return self.logits(tasks)[0]

    def learn(self, episodes: Sequence[Episode]) -> Outcome:
        """Losses and logits of a meta-batch; equal-shaped neighbours pass through the net together.

        A task's loss is the mean or sum over its targets of the cross-entropy, as `reduction` says, and the penalty.
        """
        losses: list[Tensor] = []
        logits: list[Tensor] = []
        for tasks in groups(episodes):
            scores = self.logits(tasks)
            cross_entropy = tasks.cross_entropy(scores)
            losses.append(cross_entropy.mean(1) if self.reduction == "mean" else cross_entropy.sum(1))
            logits.extend(scores.detach())
        return Outcome(torch.cat(losses) + self.penalty(), logits)

    def penalty(self) -> Tensor | float:
        """What is added to the loss of each task."""
        return 0.0

    def step_logits(self, episodes: Sequence[Episode], sizes: Sequence[Sequence[int]] | None = None) -> list[Tensor]:
        """Logits of each episode's targets after each of its `test_steps`, `(steps, target, way)`, in `eval()`.

        Args:
            episodes: the tasks.
            sizes: for each episode, the sizes of the sets in which its targets come, one after the other; all of them
                at once if left out.
        """
        if sizes is None:
            return [scores[None] for scores in self.learn(episodes).logits]
        return [self._apart(episode, each)[None] for episode, each in zip(episodes, sizes, strict=True)]

    def _apart(self, episode: Episode, sizes: Sequence[int]) -> Tensor:
        predictor = self.adapt(episode.context_x, episode.context_y)
        if len(set(sizes)) == 1:
            return predictor.in_sets(episode.target_x, len(sizes))  # together, each normalised by itself
        return torch.cat([predictor(one) for one in episode.target_x.split(list(sizes))])

    @property
    def target_net(self) -> nn.Module:
        """The part of the learner that targets pass through; its norms decide whether the learner is transductive."""
        return self

    # What it says of itself, for the settings and commands

    @classmethod
    def of(cls, net: nn.Module, norm: NormMaker, own: Mapping[str, Any], *, compiled: bool = False) -> Self:
        """The learner of a run.

        Args:
            net: of the run.
            norm: makes the run's norms, for networks that the learner has beside the net.
            own: the values of its own settings, those that are None left out.
            compiled: compile the net.
        """
        if compiled:
            net.compile()
        return cls(net, **own)

    @classmethod
    def net_options(cls, settings: Any) -> dict[str, Any]:
        """What the net is made with, beside its norm, image shape and filters."""
        return {}

    @classmethod
    def papers(cls, asked: Asked) -> dict[str, Any]:
        """The settings of the papers' experiment that is nearest to what is asked for."""
        return {}

    @classmethod
    def contradictions(cls, settings: Any) -> Iterator[tuple[str, str]]:
        """Settings that this learner cannot have, and what each contradicts."""
        yield from ()
