"""A learner adapted to one task: classifies targets when they come, one at a time if need be."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tasknorm.learners.tasks import check_images
from tasknorm.phase import target


class Predictor(nn.Module):
    """A net with its task's weights and context moments, and the task's linear classifier.

    Args:
        net: the adapted net, which has seen the context; the predictor keeps it, in `eval()` and without gradients.
        weight, bias: of the linear classifier on the net's features, `(way, features)` and `(way,)`; None if the net
            has a classifier of its own.
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, net: nn.Module, weight: Tensor | None = None, bias: Tensor | None = None) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("weight", None if weight is None else weight.detach().clone())
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        self.eval().requires_grad_(False)

    def forward(self, target_x: Tensor) -> Tensor:
        """Logits `(target, way)` of images `(target, ...)`."""
        check_images(self.net, target_x)
        with target(self.net):
            return self.logits(target_x)

    def logits(self, target_x: Tensor) -> Tensor:
        """As `forward`, in a phase that has been entered already."""
        features: Tensor = self.net(target_x)
        if self.weight is None:
            return features
        return nn.functional.linear(features, self.weight, self.bias)

    @torch.no_grad()
    def predict(self, target_x: Tensor) -> Tensor:
        """The class of each image, `(target,)`."""
        return self(target_x).argmax(1)
