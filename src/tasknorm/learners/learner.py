"""What a learner is: the call signature that MAML, ProtoNets and CNAPs share (section 2.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from tasknorm.episode import Episode
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.tasks import Tasks, groups


class Outcome(NamedTuple):
    """What a learner makes of a meta-batch.

    Args:
        losses: the loss of each task, `(tasks,)`; their mean over the meta-batch is what to minimise.
        logits: of each task's targets, `(target, way)`, without graph.
    """

    losses: Tensor
    logits: list[Tensor]


class Learner(nn.Module):
    """A few-shot learner: in `train()` it meta-trains, in `eval()` it meta-tests. Subclasses have these methods."""

    def forward(self, episode: Episode) -> Tensor:
        """Logits of the episode's targets, `(target, way)`."""
        raise NotImplementedError(f"{type(self).__name__} must say what it predicts of an episode")

    def adapt(self, context_x: Tensor, context_y: Tensor) -> Predictor:
        """A predictor for the task of this context, for targets that come later, as at meta-test.

        Args:
            context_x: images `(context, ...)`, floats that are scaled as in training; a numpy array will do.
            context_y: their labels `(context,)`, integers from 0 to way - 1 without gaps; a list will do.

        Raises:
            ValueError: if images are bytes, numbers from 0 to 255 or of another shape, or labels have gaps.
        """
        raise NotImplementedError(f"{type(self).__name__} must say how it adapts to a context")

    def learn(self, episodes: Sequence[Episode]) -> Outcome:
        """Losses and logits of a meta-batch; equal-shaped neighbours pass through the net together."""
        raise NotImplementedError(f"{type(self).__name__} must say what it learns from a meta-batch")


def outcome(
    episodes: Sequence[Episode], logits_of: Callable[[Tasks], Tensor], reduction: Literal["mean", "sum"]
) -> Outcome:
    """What a meta-batch gives, by a function from tasks of one shape to their logits `(tasks, target, way)`.

    A task's loss is the mean or sum over its targets of the cross-entropy.
    """
    losses: list[Tensor] = []
    logits: list[Tensor] = []
    for tasks in groups(episodes):
        scores = logits_of(tasks)
        cross_entropy = tasks.cross_entropy(scores)
        losses.append(cross_entropy.mean(1) if reduction == "mean" else cross_entropy.sum(1))
        logits.extend(scores.detach())
    return Outcome(torch.cat(losses), logits)
