"""Episodes as tensors: what a trainer or an evaluation iterates over.

Images stay uint8 until the net: `unit`, `signed` and `standard` are the three ways in which the papers scale
them, `centred` that of EfficientNet-Lite.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from typing import Literal, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tasknorm.data.formats.pixels import Pixels
from tasknorm.data.sampling.augmentation import augmented, check_augmentations
from tasknorm.data.sampling.episode_images import Draw, Sampler
from tasknorm.data.spec import Spec
from tasknorm.episode import Episode
from tasknorm.errors import DataError
from tasknorm.machine import in_order

Scale: TypeAlias = Literal["unit", "signed", "standard", "centred"]

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Images(Protocol):
    """The images of one source at one size: `Cached` or `Direct`."""

    @property
    def spec(self) -> Spec: ...

    def batch(self, classes: NDArray[np.int64], numbers: NDArray[np.int64]) -> Pixels:
        """Images `numbers` of `classes`, uint8 `(images, channels, size, size)`."""
        ...


class Episodes:
    """The episodes of one seed, in order, prepared ahead by background threads.

    Episode i does not depend on the number of workers, nor on where the iteration began; the position is all
    that a checkpoint needs.

    Args:
        images: of one source, or of each source of a `Mixture`, in its order.
        sampler: which images make an episode.
        seed: of all episodes.
        workers: threads; 0 prepares each episode when it is asked for.
        ahead: how many episodes are kept ready.
        augment: how images are changed at random: names in `AUGMENTATIONS`. For training only.

    Raises:
        DataError: if an augmentation is unknown.

    >>> from tasknorm.data import Direct, FixedSampler, Glyphs
    >>> images = Direct(Glyphs(), size=28)
    >>> episodes = Episodes(images, FixedSampler(images.spec.splits["train"], way=5, shot=1, targets=2))
    >>> episodes[7].context_x.shape
    torch.Size([5, 1, 28, 28])
    """

    def __init__(
        self,
        images: Images | Sequence[Images],
        sampler: Sampler,
        seed: int = 0,
        workers: int = 1,
        ahead: int = 8,
        augment: Collection[str] = (),
    ) -> None:
        check_augmentations(augment)
        self.images = list(images) if isinstance(images, Sequence) else [images]
        self.sampler, self.seed, self.workers, self.ahead = sampler, seed, workers, ahead
        self.augment, self.position = tuple(augment), 0

    def __getitem__(self, index: int) -> Episode:
        """Episode `index`, whatever the position."""
        draw = self.sampler.draw(self.seed, index)
        if draw.source >= len(self.images):
            raise DataError(
                f"an episode was drawn from source {draw.source} of the mixture, and images were passed for "
                f"{len(self.images)}; pass those of each source, in the mixture's order"
            )
        episode = _episode(draw, self.images[draw.source])
        return augmented(episode, self.augment, self.seed, index) if self.augment else episode

    def __iter__(self) -> Iterator[Episode]:
        """Endless, from the position on; the position moves as episodes are handed out."""
        start = self.position
        for index, episode in enumerate(in_order(self.__getitem__, count(start), self.workers, self.ahead), start):
            self.position = index + 1
            yield episode

    def state_dict(self) -> dict[str, int]:
        """For a checkpoint: where to go on."""
        return {"seed": self.seed, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where a checkpoint was written; iterate anew afterwards."""
        self.seed, self.position = state["seed"], state["position"]


def _episode(draw: Draw, images: Images) -> Episode:
    context_x, context_y = _examples(draw, draw.context, images)
    target_x, target_y = _examples(draw, draw.target, images)
    return Episode(context_x, context_y, target_x, target_y)


def _examples(draw: Draw, numbers: Sequence[NDArray[np.int64]], images: Images) -> tuple[Tensor, Tensor]:
    """`(examples, channels, size, size)` and their labels, `(examples,)`, class by class."""
    labels = np.repeat(np.arange(len(numbers)), [len(chosen) for chosen in numbers])
    batch = images.batch(draw.classes[labels], np.concatenate(numbers))
    if draw.rotations.any():
        batch = _turned(batch, draw.rotations[labels])
    return torch.from_numpy(batch), torch.from_numpy(labels)


def _turned(batch: Pixels, turns: NDArray[np.int64]) -> Pixels:
    """Each image turned by its own number of quarter turns."""
    turned = batch.copy()
    for quarter in range(1, 4):
        turned[turns == quarter] = np.rot90(batch[turns == quarter], quarter, axes=(2, 3))
    return turned


def unit(x: Tensor) -> Tensor:
    """uint8 to [0, 1], as MAML does (Finn et al., 2017)."""
    return x.float() / 255


def signed(x: Tensor) -> Tensor:
    """uint8 to [-1, 1], as Meta-Dataset does (Triantafillou et al., 2020)."""
    return x.float() / 127.5 - 1


def standard(x: Tensor) -> Tensor:
    """uint8 `(..., 3, height, width)` by ImageNet's mean and deviation, as ProtoNets on miniImageNet."""
    mean, std = (torch.tensor(values, device=x.device).view(3, 1, 1) for values in (MEAN, STD))
    return (unit(x) - mean) / std


def centred(x: Tensor) -> Tensor:
    """uint8 to (x - 127) / 128, about [-1, 1], as the published weights of EfficientNet-Lite want it."""
    return (x.float() - 127) / 128


SCALINGS: dict[Scale, Callable[[Tensor], Tensor]] = {
    "unit": unit,
    "signed": signed,
    "standard": standard,
    "centred": centred,
}


def scaled(episode: Episode, scale: Callable[[Tensor], Tensor] = unit) -> Episode:
    """The same episode, its images scaled for a net."""
    return Episode(scale(episode.context_x), episode.context_y, scale(episode.target_x), episode.target_y)
