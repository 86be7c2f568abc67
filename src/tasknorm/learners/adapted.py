"""A net adapted to one task: what a predictor replaces as a whole when examples are added."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from tasknorm.data import Pictures, Preparation
from tasknorm.errors import DataError, short
from tasknorm.learners.answer import NONE
from tasknorm.learners.phases import targets_for_life
from tasknorm.learners.tasks import check_images
from tasknorm.norms import Norm

if TYPE_CHECKING:
    from tasknorm.learners.learner import Learner

LONGEST_NAME = 1000  # characters


@dataclass(frozen=True)
class Kept:
    """What is needed to learn the task again with more examples.

    Args:
        learner: has the adapted net in place of its own: adapting it again replaces all that adapting changes.
        images: of the context before scaling, bytes `(context, channels, size, size)`.
        labels: of the context, `(context,)`.
    """

    learner: Learner
    images: Tensor
    labels: Tensor

    @classmethod
    def of(cls, learner: Learner, net: nn.Module, images: Tensor, labels: Tensor) -> Kept:
        """With a copy of the learner that shares the adapted net."""
        return cls(copy.deepcopy(learner, {id(learner.target_net): net}).eval(), images, labels)

    def with_more(self, names: Sequence[str], images: Tensor, labels: Tensor, preparation: Preparation) -> Adapted:
        """The net adapted anew, to this context and more examples."""
        images, labels = torch.cat((self.images, images)), torch.cat((self.labels, labels))
        net = self.learner.target_net
        like = next(net.parameters())
        for part in self.learner.children():
            if part is not net:  # a predictor that was moved, or cast, moved its net alone
                part.to(device=like.device, dtype=like.dtype)
        adapted = self.learner.adapt(self.learner.prepared(images, preparation), labels).adapted
        adapted.names, adapted.kept = tuple(names), Kept.of(self.learner, adapted.net, images, labels)
        return adapted


class Adapted(nn.Module):
    """A net with its task's weights and context moments, in its target phase for life, and a linear classifier.

    Args:
        net: the adapted net, which has seen the context.
        weight, bias: of the linear classifier on the net's features, `(way, features)` and `(way,)`; None if the net
            has a classifier of its own.
        names: of the classes, in the order of the logits; numbers from 0 if left out.
        kept: what is needed to learn the task again with more examples; None if it was forgotten.
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        net: nn.Module,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        names: Sequence[str] | None = None,
        kept: Kept | None = None,
    ) -> None:
        super().__init__()
        targets_for_life(net)
        self.net = net
        self.register_buffer("weight", None if weight is None else weight.detach().clone())
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        self.names = tuple(map(str, range(self.way or 0))) if names is None else tuple(names)
        self.kept = kept
        self.train(False)
        self.requires_grad_(False)

    @property
    def way(self) -> int | None:
        """The number of classes; None if the net has a classifier of unknown size."""
        way = getattr(self.net, "way", None)
        return len(self.weight) if self.weight is not None else way if isinstance(way, int) else None

    @property
    def label(self) -> Literal["transductive", "non-transductive"]:
        """What its norms say of themselves."""
        return self.label_of(self.net)

    @staticmethod
    def label_of(net: nn.Module) -> Literal["transductive", "non-transductive"]:
        """What the norms of a net say of themselves."""
        norms = (module for module in net.modules() if isinstance(module, Norm))
        return "transductive" if any(norm.transductive for norm in norms) else "non-transductive"

    def forward(self, target_x: Tensor) -> Tensor:
        """Logits `(target, way)`."""
        return self.through(self.net, target_x)

    def in_sets(self, target_x: Tensor, sets: int) -> Tensor:
        """As `forward`, for several target sets of equal size, end to end: each as if it had come alone."""
        net = sharing(self.net)
        targets_for_life(net, sets)
        return self.through(net, target_x)

    def through(self, net: nn.Module, target_x: Tensor) -> Tensor:
        """Logits by this classifier on the features of a net."""
        target_x = check_images(net, target_x)
        features: Tensor = net(target_x)
        if self.weight is None:
            return features
        return nn.functional.linear(features, self.weight, self.bias)


def sharing(module: nn.Module) -> nn.Module:
    """A copy of the modules with the same tensors, in no phase."""
    tensors = chain(module.parameters(), module.buffers())
    return copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})


def checked_names(names: Sequence[str], way: int | None = None) -> tuple[str, ...]:
    """The names of a task's classes.

    Raises:
        DataError: if they are not as many as the classes, or not all different.
    """
    found = tuple(names)
    if way is not None and len(found) != way:
        raise DataError(f"each of the {way} classes needs a name, got {len(found)} names; pass one for each class")
    for name in found:
        if not isinstance(name, str) or not name or name == NONE or len(name) > LONGEST_NAME:
            raise DataError(
                f"the name of a class must be a text of 1 to {LONGEST_NAME} characters other than {NONE!r}, got "
                f"{short(name)}; rename the class"
            )
    twice = [name for name in found if found.count(name) > 1] if len(set(found)) < len(found) else []
    if twice:
        raise DataError(f"the names of classes must be different, got {short(twice[0])} twice; rename one")
    return found


def class_pixels(context: Mapping[str, Pictures], preparation: Preparation) -> dict[str, Tensor]:
    """Images of each class before scaling, bytes `(images, channels, size, size)`.

    Raises:
        DataError: if an image cannot be read, or a class has none.
    """
    found = {name: preparation.pixels(images) for name, images in context.items()}
    for name, pixels in found.items():
        if not len(pixels):
            raise DataError(f"class {short(name)} needs at least one image, got none; add some, or leave the class out")
    return found


def joined(parts: list[Tensor]) -> Tensor:
    """The parts, one after the other, as one tensor; the list is empty then, so that a context is in memory once."""
    whole = torch.empty(sum(map(len, parts)), *parts[0].shape[1:], dtype=parts[0].dtype, device=parts[0].device)
    start = len(whole)
    while parts:
        part = parts.pop()
        start -= len(part)
        whole[start : start + len(part)] = part
    return whole
