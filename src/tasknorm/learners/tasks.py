"""Tasks that pass through a net together: equal in shape, one behind the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


def class_means(features: Tensor, labels: Tensor, way: int) -> Tensor:
    """Mean of the features `(tasks, context, d)` of each class: `(tasks, way, d)`."""
    members = F.one_hot(labels, way).to(features.dtype)  # (tasks, context, way)
    return torch.bmm(members.transpose(1, 2), features) / members.sum(1).unsqueeze(-1)


def check_images(net: nn.Module, images: Tensor) -> None:
    """Raise if the images are not of the shape that the net was made for."""
    expected = getattr(net, "image_shape", None)
    if expected is not None and tuple(images.shape[1:]) != tuple(expected):
        raise ValueError(
            f"the net was made for images of shape {tuple(expected)}, got images of shape {tuple(images.shape[1:])}; "
            "resize them, or make the net with image_shape=..."
        )


def check_context(context_y: Tensor, way: int | None = None) -> int:
    """The number of classes of a context.

    Raises:
        ValueError: if the labels are not 0..way-1, each at least once, or are more than `way`, the classifier's.
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
    if way is not None and len(labels) > way:
        raise ValueError(
            f"the task has {len(labels)} classes and the net's classifier {way}; make the net with way={len(labels)}"
        )
    return len(labels)


def _shape(episode: Episode) -> tuple[object, ...]:
    return episode.context_x.shape, episode.target_x.shape, episode.way


def _stacked(members: list[Episode]) -> Tasks:
    for episode in members:
        way = check_context(episode.context_y)
        if episode.target_y.min() < 0 or episode.target_y.max() >= way:
            raise ValueError(
                f"target labels must be classes of the context, 0 to {way - 1}, got {int(episode.target_y.min())} to "
                f"{int(episode.target_y.max())}"
            )
    names = ("context_x", "context_y", "target_x", "target_y")
    return Tasks(*(torch.stack([getattr(episode, name) for episode in members]) for name in names), members[0].way)
