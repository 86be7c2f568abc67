"""A source's images straight from its files, decoded when they are asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasknorm.data.cache import with_channels
from tasknorm.data.pixels import Pixels, bilinear, bilinear_batch
from tasknorm.data.source import Source


class Direct:
    """The images of a source at one size, without a cache.

    Args:
        source: where the images come from.
        size: height and width.
        channels: 3 repeats a grey image's channel; the source's own number if left out.
    """

    def __init__(self, source: Source, size: int, channels: int | None = None) -> None:
        self.spec, self.size = source.spec, size
        self.channels = channels or source.channels
        self._source = source

    def batch(self, classes: NDArray[np.int64], numbers: NDArray[np.int64]) -> Pixels:
        """Images `numbers` of `classes`, uint8 `(images, channels, size, size)`."""
        pairs = zip(classes.tolist(), numbers.tolist(), strict=True)
        images = [self._source.image(class_id, number) for class_id, number in pairs]
        return with_channels(resized(images, self._source, self.size), self.channels)


def resized(images: list[Pixels], source: Source, size: int) -> Pixels:
    """Images of any shapes `(height, width, channels)`, as the source resizes: `(images, channels, size, size)`."""
    if source.resize is not bilinear or len({image.shape for image in images}) > 1:
        return np.stack([source.resize(image, size) for image in images]).transpose(0, 3, 1, 2)
    return bilinear_batch(np.stack(images).transpose(0, 3, 1, 2), size)  # much faster than one by one
