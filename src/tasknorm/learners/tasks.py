"""Tasks that pass through a net together: equal in shape, one behind the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tasknorm.episode import Episode


@dataclass(frozen=True)
class Tasks:
    """Episodes of one shape, stacked.

    Args:
        context_x: `(tasks, context, ...)`.
        context_y: `(tasks, context)`.
        target_x: `(tasks, target, ...)`.
        target_y: `(tasks, target)`.
        way: classes of each task.
    """

    context_x: Tensor
    context_y: Tensor
    target_x: Tensor
    target_y: Tensor
    way: int

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return len(self.context_x)

    @property
    def context_size(self) -> int:
        """Context examples of each task."""
        return self.context_x.shape[1]

    @property
    def shot(self) -> float:
        """Context examples a class, on average."""
        return self.context_size / self.way

    @property
    def images(self) -> Tensor:
        """All images as a joint pass takes them: [context; target] of each task."""
        return torch.cat((self.context_x, self.target_x), 1).flatten(0, 1)

    def target_sets(self, sizes: Sequence[int]) -> list[Tasks]:
        """The same tasks with the first so many of their targets, with the next so many, and so on."""
        pairs = zip(self.target_x.split(list(sizes), 1), self.target_y.split(list(sizes), 1), strict=True)
        return [replace(self, target_x=x, target_y=y) for x, y in pairs]

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """Cross-entropy of each target, `(tasks, target)`, for logits `(tasks, target, way)`."""
        losses = F.cross_entropy(logits.flatten(0, 1), self.target_y.flatten(), reduction="none")
        return losses.view_as(self.target_y)


def groups(episodes: Sequence[Episode], at_once: int | None = None) -> Iterator[Tasks]:
    """The episodes in their order, neighbours of equal shape and way stacked, at most `at_once` of them."""
    members: list[Episode] = []
    for episode in episodes:
        if members and (_shape(episode) != _shape(members[0]) or len(members) == at_once):
            yield _stacked(members)
            members = []
        members.append(episode)
    if not members:
        raise ValueError("a meta-batch needs at least one episode, got none")
    yield _stacked(members)


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of targets whose largest logit is that of their class."""
    return float((logits.argmax(-1) == labels).double().mean())


def check_images(net: nn.Module, images: Tensor) -> None:
    """Raise if the images are not of the shape that the net was made for."""
    expected = getattr(net, "image_shape", None)
    if expected is not None and tuple(images.shape[1:]) != tuple(expected):
        raise ValueError(
            f"the net was made for images of shape {tuple(expected)}, got images of shape {tuple(images.shape[1:])}; "
            "resize them, or make the net with image_shape=..."
        )


def check_way(net: nn.Module, way: int) -> None:
    """Raise if a task has more classes than the net's classifier."""
    outputs = getattr(net, "way", None)
    if outputs is not None and way > outputs:
        raise ValueError(f"the task has {way} classes and the net's classifier {outputs}; make the net with way={way}")


def check_context(context_y: Tensor) -> int:
    """The number of classes of a context.

    Raises:
        ValueError: if the labels are not integers from 0 to way - 1, each at least once.
    """
    if context_y.is_floating_point() or context_y.dtype == torch.bool:
        raise ValueError(f"labels must be integers from 0 to way - 1, got {context_y.dtype}; convert them: y.long()")
    labels = context_y.unique().tolist()
    if labels[0] < 0:
        raise ValueError(f"labels must be integers from 0 to way - 1, got {labels[0]}; number the classes from 0")
    missing = sorted(set(range(labels[-1] + 1)) - set(labels))
    if missing:
        raise ValueError(
            f"each class from 0 to {labels[-1]} needs a context example, and {missing[:5]} have none; number a task's "
            "classes 0..way-1 without gaps"
        )
    return len(labels)


def _shape(episode: Episode) -> tuple[object, ...]:
    return episode.context_x.shape, episode.target_x.shape, episode.way


def _stacked(members: list[Episode]) -> Tasks:
    names = ("context_x", "context_y", "target_x", "target_y")
    stacks = {name: torch.stack([getattr(episode, name) for episode in members]) for name in names}
    tasks = Tasks(**stacks, way=members[0].way)
    for episode in members:
        check_context(episode.context_y)
    low, high = (int(bound) for bound in tasks.target_y.aminmax())
    if low < 0 or high >= tasks.way:
        raise ValueError(
            f"target labels must be classes of the context, 0 to {tasks.way - 1}, got {low} to {high}; number a task's "
            "classes alike in both sets"
        )
    return tasks
