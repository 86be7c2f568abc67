"""Tasks of equal shape that pass through a net together, and the checks of what a learner is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tasknorm.chunks import InParts
from tasknorm.episode import Episode
from tasknorm.kernels import is_traced

LARGEST = 32.0  # beyond any usual scaling of images: standardised ones reach 3, sparse whitened ones perhaps 20


@dataclass(frozen=True)
class Tasks:
    """Episodes of equal shape, stacked.

    Args:
        context_x: `(tasks, context, ...)`.
        context_y: `(tasks, context)`; or one-hot, `(tasks, context, way)`, as the graph of a learner takes them.
        target_x: `(tasks, target, ...)`.
        target_y: `(tasks, target)`.
        way: number of classes of each task.
    """

    context_x: Tensor
    context_y: Tensor
    target_x: Tensor
    target_y: Tensor
    way: int

    @property
    def count(self) -> int:
        """Number of tasks."""
        return len(self.context_x)

    @property
    def context_size(self) -> int:
        """Number of context examples of each task."""
        return self.context_x.shape[1]

    @property
    def shot(self) -> float:
        """Average number of context examples per class."""
        return self.context_size / self.way

    @property
    def images(self) -> Tensor:
        """All images in the order of a joint pass: for each task its context, then its targets."""
        return torch.cat((self.context_x, self.target_x), 1).flatten(0, 1)

    def each(self) -> list[Tasks]:
        """The tasks, one at a time."""
        names = ("context_x", "context_y", "target_x", "target_y")
        return [replace(self, **{n: getattr(self, n)[task : task + 1] for n in names}) for task in range(self.count)]

    def target_sets(self, sizes: Sequence[int]) -> list[Tasks]:
        """The same tasks with their targets split into consecutive groups of these sizes."""
        pairs = zip(self.target_x.split(list(sizes), 1), self.target_y.split(list(sizes), 1), strict=True)
        return [replace(self, target_x=x, target_y=y) for x, y in pairs]

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """Cross-entropy of each target, `(tasks, target)`, for logits `(tasks, target, way)`."""
        losses = F.cross_entropy(logits.flatten(0, 1), self.target_y.flatten(), reduction="none")
        return losses.view_as(self.target_y)

    def losses(self, logits: Tensor) -> Tensor:
        """The loss of each task in MAML, `(tasks,)`: the sum of its targets' cross-entropy, divided by the shot."""
        return self.cross_entropy(logits).sum(1) / self.shot


def groups(episodes: Sequence[Episode], at_once: int | None = None) -> Iterator[Tasks]:
    """The episodes in their order, with consecutive ones of equal shape and way stacked, at most `at_once` together."""
    members: list[Episode] = []
    alike: tuple[object, ...] = ()
    for episode in episodes:
        shape = _shape(episode)
        if members and (shape != alike or len(members) == at_once):
            yield _stacked(members)
            members = []
        members.append(episode)
        alike = shape
    if not members:
        raise ValueError("a meta-batch needs at least one episode, got none")
    yield _stacked(members)


def pixels(images: Tensor) -> int:
    """Number of pixels of all images `(images, channels, ...)`."""
    return images[:, :1].numel()


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of targets whose largest logit is that of their class."""
    return float((logits.argmax(-1) == labels).double().mean())


def check_images(net: nn.Module, images: Any) -> Tensor:
    """Images `(images, ...)` as a tensor that the net can take.

    A numpy array, or anything else that torch can convert, gets the net's dtype and device; a tensor is used as it is.

    Raises:
        ValueError: if the images are integers or do not have the net's image shape; if images `(channels, height,
            width)` hold values that are not finite, or larger than 32, which no usual scaling gives.
    """
    batch = images if isinstance(images, Tensor) else for_net(net, _as_tensor(images, "images"))
    _check_shape(getattr(net, "image_shape", None), tuple(batch.shape))
    _check_scale(batch)
    return batch


def for_net(net: nn.Module, images: Tensor) -> Tensor:
    """Floats with the dtype and device of the net's weights; integers stay as they are."""
    like = next((weight for weight in net.parameters() if weight.is_floating_point()), None)
    return images if like is None or not images.is_floating_point() else images.to(like)


def _check_scale(images: Tensor) -> None:
    """Raise unless images are scaled as nets expect them: floats near 0, not bytes from 0 to 255."""
    if not (images.is_floating_point() or images.is_complex()):
        raise ValueError(
            f"images must be floats, scaled as in the net's training, got {images.dtype}; to scale bytes to [0, 1], "
            "use x.float() / 255 (tasknorm.data has the scalings unit, signed, standard and centred)"
        )
    if images.ndim < 4 or images.numel() == 0 or images.is_complex() or is_traced():
        return  # inputs that are not images may have any range
    largest = float(torch.stack(images.detach().aminmax()).abs().max())
    if not largest <= LARGEST:
        fix = "divide by 255" if largest < 256 else "check where they come from"
        raise ValueError(
            f"images must be scaled as in the net's training, to about -1 to 1, got values up to {largest:g}; {fix}"
        )


def _check_shape(expected: Sequence[int] | None, shape: tuple[int, ...]) -> None:
    if expected is None or shape[1:] == tuple(expected):
        return
    fix = "resize them, or make the net with image_shape=..."
    if shape == tuple(expected):
        fix = "pass a single image as a batch of one: x[None]"
    elif len(shape) == 4 and (shape[3], *shape[1:3]) == tuple(expected):
        fix = "put the channels first: x.permute(0, 3, 1, 2), or x.transpose(0, 3, 1, 2) in numpy"
    raise ValueError(f"the net was made for images of shape {tuple(expected)}, got images of shape {shape[1:]}; {fix}")


def check_way(net: nn.Module, way: int) -> None:
    """Raise if a task has more classes than the net's classifier."""
    outputs = getattr(net, "way", None)
    if outputs is not None and way > outputs:
        raise ValueError(
            f"the task has {way} classes, but the net's classifier has {outputs} outputs; make the net with way={way}"
        )


def given_context(net: nn.Module, context_x: Any, context_y: Any) -> tuple[Tensor | InParts, Tensor, int]:
    """The images, labels and number of classes of a context, checked and as tensors.

    Args:
        net: the net that the images are for.
        context_x: images `(context, ...)`, a tensor or an array (see `check_images`); or images that are made in parts,
            which are then checked by the first.
        context_y: labels `(context,)`: a tensor, an array or a list of integers from 0 to way - 1.

    Raises:
        ValueError: if there is not one label for each image, or if images or labels cannot be used.
    """
    images = context_x if isinstance(context_x, InParts) else check_images(net, context_x)
    if isinstance(images, InParts):
        check_images(net, images.rows(slice(1)))
    labels = (context_y if isinstance(context_y, Tensor) else _as_tensor(context_y, "labels")).to(images.device)
    if labels.shape != (len(images),):
        shape = tuple((images.images if isinstance(images, InParts) else images).shape)
        raise ValueError(
            f"each context example needs one label, got images of shape {shape} and labels of shape "
            f"{tuple(labels.shape)}; pass labels of shape ({len(images)},)"
        )
    if len(images) == 0:
        raise ValueError("a context needs at least one example, got none")
    way = check_context(labels)
    return images, labels.long(), way


def check_context(context_y: Tensor) -> int:
    """The number of classes of a context.

    Raises:
        ValueError: if the labels are not integers from 0 to way - 1, each at least once.
    """
    if context_y.is_floating_point() or context_y.dtype == torch.bool:
        raise ValueError(f"labels must be integers from 0 to way - 1, got {context_y.dtype}; convert them: y.long()")
    labels = sorted(set(context_y.tolist()))
    if labels[0] < 0:
        raise ValueError(f"labels must be integers from 0 to way - 1, got {labels[0]}; number the classes from 0")
    missing = sorted(set(range(labels[-1] + 1)) - set(labels))
    if missing:
        raise ValueError(
            f"each class from 0 to {labels[-1]} needs a context example, but {missing[:5]} have none; number a task's "
            "classes 0..way-1 without gaps"
        )
    return len(labels)


def _as_tensor(values: Any, what: str) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        rule = "integers from 0 to way - 1" if what == "labels" else "an array of floats, all of one shape"
        raise ValueError(f"{what} must be {rule}, got {type(values).__name__} ({error}); convert them") from None


def _shape(episode: Episode) -> tuple[object, ...]:
    return episode.context_x.shape, episode.target_x.shape, episode.way


def _stacked(members: list[Episode]) -> Tasks:
    names = ("context_x", "context_y", "target_x", "target_y")
    stacks = {name: _stack([getattr(episode, name) for episode in members]) for name in names}
    tasks = Tasks(**stacks, way=members[0].way)
    for episode in members:
        check_context(episode.context_y)
    low, high = (int(bound) for bound in tasks.target_y.aminmax())
    if low < 0 or high >= tasks.way:
        raise ValueError(
            f"target labels must be classes of the context, 0 to {tasks.way - 1}, got {low} to {high}; give a "
            "class the same number in the context and in the targets"
        )
    return tasks


def _stack(tensors: list[Tensor]) -> Tensor:
    """As `torch.stack`, without a copy of a single one."""
    return tensors[0].unsqueeze(0) if len(tensors) == 1 else torch.stack(tensors)
