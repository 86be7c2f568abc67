"""A source's images straight from its files, decoded when they are asked for."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tasknorm.data.cache import with_channels
from tasknorm.data.check import bad_images_can_be_skipped
from tasknorm.data.formats.pixels import Pixels, Resize, ResizeName, bilinear, bilinear_planes
from tasknorm.data.sources.source import BulkSource, Source, checked_image, chosen_resize

PIECE = 8  # images resized together: their floats stay in the processor's cache


class Direct:
    """The images of a source at one size, without a cache.

    Args:
        source: where the images come from.
        size: height and width.
        channels: 3 repeats a grey image's channel; the source's own number if left out.
        resize: how images are brought to `size`, a name in `RESIZES`; the source's own rule if left out.
    """

    def __init__(
        self, source: Source, size: int, channels: int | None = None, resize: ResizeName | None = None
    ) -> None:
        self.spec, self.size = source.spec, size
        self.channels = channels or source.channels
        self._source, self._resize = source, chosen_resize(source, resize)

    def batch(self, classes: NDArray[np.int64], numbers: NDArray[np.int64]) -> Pixels:
        """Images `numbers` of `classes`, uint8 `(images, channels, size, size)`."""
        with bad_images_can_be_skipped():
            images = self._images(classes, numbers)
        batch = torch.empty(len(images), self._source.channels, self.size, self.size, dtype=torch.uint8)
        for start in range(0, len(images), PIECE):
            batch[start : start + PIECE] = _resized(images[start : start + PIECE], self._resize, self.size)
        return with_channels(batch.numpy(), self.channels)

    def _images(self, classes: NDArray[np.int64], numbers: NDArray[np.int64]) -> list[Pixels]:
        """The images as they are, read class by class."""
        images: list[Pixels] = []
        ends = [*(np.flatnonzero(np.diff(classes)) + 1).tolist(), len(classes)]
        for start, end in zip([0, *ends], ends, strict=False):
            images += self._images_of(int(classes[start]), numbers[start:end].tolist())
        return images

    def _images_of(self, class_id: int, numbers: list[int]) -> list[Pixels]:
        if isinstance(self._source, BulkSource):
            return self._source.images(class_id, numbers)
        return [checked_image(self._source, class_id, number) for number in numbers]


def _resized(images: list[Pixels], resize: Resize, size: int) -> Tensor:
    """Images of any shapes at one size: `(images, channels, size, size)`."""
    if resize is not bilinear or len({image.shape for image in images}) > 1:
        images = [resize(image, size) for image in images]
    planes = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
    return planes if planes.shape[2:] == (size, size) else bilinear_planes(planes, size)
