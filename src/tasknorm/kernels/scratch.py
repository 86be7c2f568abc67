"""Columns of images in memory that is reused from call to call: allocating it takes longer than the work done in it.

The views of that memory are kept too: on the small images of few-shot tasks, making them takes as long as the work.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tasknorm.kernels.windows import Windows

_SHAPES = 64  # how many shapes of images are remembered by each thread


class Columns:
    """The columns of images of one shape: what the kernel sees at each output pixel.

    Args:
        images: number of images, channels, height and width.
        windows: of the convolution.
        dtype: of the numbers.

    Attributes:
        matrix: the columns, `(pixels of all images, height width channels of the kernel)`; until the next call for any
            shape.
    """

    def __init__(self, images: Sequence[int], windows: Windows, dtype: torch.dtype) -> None:
        count, channels, *sides = images
        size = windows.output_sides(sides)
        padded = [count, *(side + 2 * more for side, more in zip(sides, windows.padding, strict=True)), channels]
        columns = [count, *size, *windows.kernel, channels]
        with torch.inference_mode(False), torch.no_grad():
            self._columns = _memory(f"columns {dtype}", math.prod(columns), dtype).view(columns)
            self.matrix = self._columns.view(math.prod(columns[:3]), -1)
            read = torch.zeros(padded, dtype=dtype)  # of its own: its edge stays zero from call to call
            self._read, self._windows = windows.inside(read), windows.of_padded(read)
            written = _memory(f"padded {dtype}", math.prod(padded), dtype).view(padded)
            self._written = windows.inside(written)
            self._places = windows.places(self._columns, written)
            self._rest = windows.never_copied_to(written, self._columns)

    def read(self, x: Tensor) -> Tensor:
        """Set the columns to those of these images, `(N, C, h, w)`; returns the matrix."""
        self._read.copy_(x)
        self._columns.copy_(self._windows)
        return self.matrix

    def write(self, images: Tensor) -> None:
        """Set the images to the sums of the columns' pixels: the adjoint of `read`."""
        for rest in self._rest:
            rest.zero_()
        for place, pixels, is_first in self._places:
            (place.copy_ if is_first else place.add_)(pixels)
        images.copy_(self._written)


_kept = threading.local()


def columns_of(images: Sequence[int], windows: Windows, dtype: torch.dtype) -> Columns:
    """The columns of images of this shape, `(N, C, h, w)`, in this thread's memory."""
    shapes: dict[Any, Columns] = _kept.__dict__.setdefault("shapes", {})
    key = (*images, *windows.kernel, *windows.stride, *windows.padding, dtype)
    found = shapes.get(key)
    if found is None:
        if len(shapes) >= _SHAPES:
            shapes.clear()
        found = shapes[key] = Columns(images, windows, dtype)
    return found


def _memory(name: str, size: int, dtype: torch.dtype) -> Tensor:
    """Memory of at least this size; if it must grow, columns in the old one are forgotten."""
    kept: dict[str, Any] = _kept.__dict__
    memory: Tensor | None = kept.get(name)
    if memory is None or memory.numel() < size:
        kept.get("shapes", {}).clear()
        memory = kept[name] = torch.empty(size, dtype=dtype)
    return memory[:size]
