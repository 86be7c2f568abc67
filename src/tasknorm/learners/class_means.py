"""Class means, the prototypes of ProtoNets: how ProtoNets and NCM classify, and from what CNAPs makes its classifier.

A class is represented by the mean c of its context features. The logit of a target with features f is minus their
squared distance from c:

    -||f - c||^2 = 2 c . f - ||c||^2 - ||f||^2

The last term is the same for every class, so a linear classifier with weights 2c and biases -||c||^2 computes
the logits (equation 8 of Snell et al., 2017). A temperature, where there is one, scales both.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tasknorm.chunks import InParts, fitted, unchunked
from tasknorm.learners.phases import context_pass, joint_pass
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.tasks import Tasks, check_images, given_context


class Temperature(nn.Module):
    """One learned positive factor of all logits; its logarithm is the parameter, 0 at the start."""

    def __init__(self) -> None:
        super().__init__()
        self.log_factor = nn.Parameter(torch.zeros(()))

    def forward(self, logits: Tensor) -> Tensor:
        """The logits, or the classifier that computes them, scaled."""
        return logits * self.log_factor.exp()

    @torch.no_grad()
    def start_at(self, temperature: float) -> None:
        """Let logits be divided by this number."""
        self.log_factor.fill_(-math.log(temperature))


def class_mean_logits(net: nn.Module, tasks: Tasks, temperature: Temperature | None = None) -> Tensor:
    """Logits `(tasks, target, way)` from the class means of the net's features, in one joint pass."""
    images = tasks.images
    check_images(net, images)
    with joint_pass(net, tasks.context_size, tasks.count):
        features: Tensor = net(images).unflatten(0, (tasks.count, -1))
    contexts, targets = features.tensor_split([tasks.context_size], dim=1)
    weight, bias = _classifier(class_means(contexts, tasks.context_y, tasks.way), temperature)
    return torch.baddbmm(bias.unsqueeze(1), targets, weight.transpose(1, 2))


def class_mean_predictor(
    net: nn.Module, context_x: Tensor | InParts, context_y: Tensor, temperature: Temperature | None = None
) -> Predictor:
    """A predictor from the class means of a context `(context, ...)`; the net itself does not change."""
    context_x, context_y, way = given_context(net, context_x, context_y)
    net = copy.deepcopy(net).eval()
    images = fitted(net, context_x)
    with context_pass(net):
        features = net(images)
    weight, bias = _classifier(class_means(features[None], context_y[None], way), temperature)
    return Predictor(unchunked(net), weight[0], bias[0])


def class_means(features: Tensor, labels: Tensor, way: int) -> Tensor:
    """Mean of the features `(tasks, context, d)` of each class: `(tasks, way, d)`.

    Args:
        features: those of the context.
        labels: `(tasks, context)`, or one-hot, `(tasks, context, way)`.
        way: number of classes.
    """
    members = (labels if labels.ndim == 3 else F.one_hot(labels, way)).to(features.dtype)  # (tasks, context, way)
    return torch.bmm(members.transpose(1, 2), features) / members.sum(1).unsqueeze(-1)


def _classifier(means: Tensor, temperature: Temperature | None = None) -> tuple[Tensor, Tensor]:
    """Weights `(tasks, way, features)` and biases `(tasks, way)` from class means."""
    weight, bias = 2 * means, -means.square().sum(-1)
    return (weight, bias) if temperature is None else (temperature(weight), temperature(bias))
