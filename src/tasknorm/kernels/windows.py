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
        height, width = (
            (side + 2 * padding - kernel) // stride + 1
            for side, kernel, stride, padding in zip(x.shape[-2:], *self, strict=True)
        )
        return height, width

    def columns(self, x: Tensor) -> Tensor:
        """The pixels in each window of images `(N, C, h, w)`: `(N, height, width, kernel, kernel, C)`, a view."""
        top, left = self.padding
        padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, left, left, top, top))
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
        (height, width), (down, across) = columns.shape[1:3], self.stride
        tiled = self.kernel[0] >= down and self.kernel[1] >= across
        padded[:, down * height if tiled else 0 :].zero_()
        padded[:, :, across * width if tiled else 0 :].zero_()
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                place = padded[:, row:, column:][:, : down * height : down, : across * width : across]
                # The first windows written do not overlap, so they are copied and need no zeros to be added to.
                write = place.copy_ if tiled and row < down and column < across else place.add_
                write(columns[:, :, :, row, column])
        return self.inside(padded)

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
