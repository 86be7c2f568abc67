"""Images that are made a part at a time, so that they never are floats all at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class InParts:
    """A set of images for a net, made from a smaller form, such as bytes, when they are needed.

    Args:
        images: the smaller form, one row for each image.
        make: makes some of its rows into images for the net.
        chunk: how many images pass through the net at a time.
    """

    images: Tensor
    make: Callable[[Tensor], Tensor]
    chunk: int

    def __len__(self) -> int:
        return len(self.images)

    @property
    def device(self) -> torch.device:
        """The device of the images that are made."""
        return self.make(self.images[:1]).device

    def rows(self, part: slice) -> Tensor:
        """Some of the images."""
        return self.make(self.images[part])


def whole(images: Tensor | InParts) -> Tensor:
    """All of the images."""
    return images.rows(slice(None)) if isinstance(images, InParts) else images
