"""The windows of a convolution: what its kernel sees of an image at each place, and the reverse.

Images are `(N, C, h, w)` with the channels last in memory, so that windows are copied in long runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from tasknorm.kernels.tracing import apply

Sides = Sequence[int]


class Windows(NamedTuple):
    """The windows of a convolution."""

    kernel: Sides
    stride: Sides
    padding: Sides

    def output_size(self, x: Tensor) -> tuple[int, int]:
        """Height and width of the convolution of images `(N, C, height, width)`."""
        return self.output_sides(x.shape[-2:])

    def output_sides(self, sides: Sides) -> tuple[int, int]:
        """Height and width of the convolution of images of this height and width."""
        height, width = (
            (side + 2 * padding - kernel) // stride + 1
            for side, kernel, stride, padding in zip(sides, *self, strict=True)
        )
        return height, width

    def columns(self, x: Tensor) -> Tensor:
        """The pixels in each window of images `(N, C, h, w)`: `(N, height, width, kernel, kernel, C)`, a view."""
        top, left = self.padding
        return self.of_padded(F.pad(x.permute(0, 2, 3, 1), (0, 0, left, left, top, top)))

    def of_padded(self, padded: Tensor) -> Tensor:
        """The pixels in each window of padded images `(N, h + 2 padding, w + 2 padding, C)`, as `columns`: a view."""
        for axis in (0, 1):
            padded = padded.unfold(1 + axis, self.kernel[axis], self.stride[axis])
        return padded.permute(0, 1, 2, 4, 5, 3)

    def images(self, columns: Tensor, padded: Tensor) -> Tensor:
        """The adjoint of `columns`: each window's pixels added up where they came from.

        Args:
            columns: `(N, height, width, kernel, kernel, C)`.
            padded: room for the padded images, `(N, h + 2 padding, w + 2 padding, C)`.

        Returns:
            The images `(N, C, h, w)`, a view of `padded`.
        """
        for rest in self.never_copied_to(padded, columns):
            rest.zero_()
        for place, pixels, is_first in self.places(columns, padded):
            (place.copy_ if is_first else place.add_)(pixels)
        return self.inside(padded)

    def places(self, columns: Tensor, padded: Tensor) -> list[tuple[Tensor, Tensor, bool]]:
        """For each pixel of the kernel, the places in `padded` that it sees, and its pixels in `columns`: views.

        The first of the places do not overlap: pixels can be copied to them, which need not be zeros.
        """
        (height, width), (down, across) = columns.shape[1:3], self.stride
        found = []
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                place = padded[:, row:, column:][:, : down * height : down, : across * width : across]
                is_first = self._is_tiled and row < down and column < across
                found.append((place, columns[:, :, :, row, column], is_first))
        return found

    def never_copied_to(self, padded: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Views of the parts of `padded` that are not among the first of its `places`."""
        (height, width), (down, across) = columns.shape[1:3], self.stride
        return (
            padded[:, down * height if self._is_tiled else 0 :],
            padded[:, :, across * width if self._is_tiled else 0 :],
        )

    @property
    def _is_tiled(self) -> bool:
        """Whether the kernel leaves out no pixel between its places."""
        return self.kernel[0] >= self.stride[0] and self.kernel[1] >= self.stride[1]

    def inside(self, padded: Tensor) -> Tensor:
        """Padded images `(N, height, width, C)` as images `(N, C, h, w)`: a view."""
        (top, left), (height, width) = self.padding, padded.shape[1:3]
        return padded[:, top : height - top, left : width - left].permute(0, 3, 1, 2)

    def room(self, x: Tensor) -> Tensor:
        """Uninitialised memory for `images`."""
        sides = (side + 2 * padding for side, padding in zip(x.shape[-2:], self.padding, strict=True))
        return x.new_empty(len(x), *sides, x.shape[1])


def columns(x: Tensor, windows: Windows) -> Tensor:
    """`windows.columns(x)` with derivatives of any order."""
    result: Tensor = apply(_Columns, x, windows)
    return result


class _Columns(Function):
    """`Windows.columns`, whose derivative is `Windows.images`."""

    @staticmethod
    def forward(x: Tensor, windows: Windows) -> Tensor:
        return windows.columns(x).contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Windows], output: Tensor) -> None:
        x, ctx.windows = inputs
        ctx.like = torch.empty_like(x, device="meta")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return apply(_Images, grad, ctx.like, ctx.windows), None


class _Images(Function):
    """`Windows.images`, whose derivative is `Windows.columns`."""

    @staticmethod
    def forward(columns: Tensor, like: Tensor, windows: Windows) -> Tensor:
        return windows.images(columns, torch.empty_like(windows.room(like), device=columns.device))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Windows], output: Tensor) -> None:
        ctx.windows = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return apply(_Columns, grad, ctx.windows), None, None
