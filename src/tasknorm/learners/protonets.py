"""ProtoNets: Snell et al., 2017, "Prototypical networks for few-shot learning"; sections 5.1 and 5.2."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from tasknorm.episode import Episode
from tasknorm.learners.learner import Learner, Outcome, outcome
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.tasks import Tasks, check_images, class_means, given_context, groups
from tasknorm.phase import context, joint


class ProtoNets(Learner):
    """Each class is the mean c of its context features; a target's logit is minus its squared distance from c.

        -||f - c||^2 = 2 c . f - ||c||^2 - ||f||^2

    The last term is the same for every class, so logits are those of a linear classifier with weights 2c and biases
    -||c||^2 (equation 8 of Snell et al.), which is how they are computed.

    Args:
        net: images to features.
        reduction: of a task's cross-entropy over its targets: the mean, as Snell et al., or the sum, as in the
            Meta-Dataset experiments.

    >>> from tasknorm import NORMS, nets
    >>> learner = ProtoNets(nets.protonets_conv4(NORMS["TaskNorm-L"]))
    >>> x, y = torch.rand(10, 1, 28, 28), torch.arange(10) % 5
    >>> learner(Episode(x, y, x, y)).shape
    torch.Size([10, 5])
    """

    def __init__(self, net: nn.Module, *, reduction: Literal["mean", "sum"] = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum"):
            raise ValueError(f'reduction must be "mean" or "sum", got {reduction!r}')
        self.net = net
        self.reduction = reduction

    def forward(self, episode: Episode) -> Tensor:
        """Logits of the episode's targets, `(target, way)`."""
        (tasks,) = groups([episode])
        return self._logits(tasks)[0]

    def learn(self, episodes: Sequence[Episode]) -> Outcome:
        """Losses and logits of a meta-batch (see `Learner`)."""
        return outcome(episodes, self._logits, self.reduction)

    @torch.no_grad()
    def adapt(self, context_x: Tensor, context_y: Tensor) -> Predictor:
        """A predictor for the task of this context (see `Learner`)."""
        context_x, context_y, way = given_context(self.net, context_x, context_y)
        net = copy.deepcopy(self.net).eval()
        with context(net):
            features = net(context_x)
        weight, bias = _classifier(class_means(features[None], context_y[None], way))
        return Predictor(net, weight[0], bias[0])

    def _logits(self, tasks: Tasks) -> Tensor:
        """Logits `(tasks, target, way)`, by one joint pass."""
        images = tasks.images
        check_images(self.net, images)
        with joint(self.net, tasks.context_size, tasks.count):
            features: Tensor = self.net(images).unflatten(0, (tasks.count, -1))
        contexts, targets = features.tensor_split([tasks.context_size], dim=1)
        weight, bias = _classifier(class_means(contexts, tasks.context_y, tasks.way))
        return torch.baddbmm(bias.unsqueeze(1), targets, weight.transpose(1, 2))


def _classifier(means: Tensor) -> tuple[Tensor, Tensor]:
    """Weights `(tasks, way, features)` and biases `(tasks, way)` from class means."""
    return 2 * means, -means.square().sum(-1)
