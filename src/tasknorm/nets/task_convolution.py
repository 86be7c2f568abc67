"""The convolution of many tasks' images, each task with a weight of its own, as one matrix product a task.

    y = columns(x) weight' + bias        columns: what the kernel sees at each output pixel, (pixels, height width in)

Everything is kept with the channels last, so that making columns copies long runs, results are images without another
copy, and sums over space run along the channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

CHUNK = 1 << 20  # numbers in the columns that are made at a time, so that they stay in the cache


class Windows(NamedTuple):
    """The windows of a convolution."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    def output_size(self, x: Tensor) -> tuple[int, int]:
        """Height and width of the convolution of images `(N, C, height, width)`."""
        height, width = (
            (side + 2 * padding - kernel) // stride + 1
            for side, kernel, stride, padding in zip(x.shape[-2:], *self, strict=True)
        )
        return height, width

    def columns(self, x: Tensor) -> Tensor:
        """The pixels in each window of images `(N, C, h, w)`: `(N, height, width, kernel, kernel, C)`."""
        (across, down), (step_down, step_across) = self.kernel[::-1], self.stride
        padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, *self.padding[1:] * 2, *self.padding[:1] * 2))
        if torch.compiler.is_compiling():
            parts = [padded[(slice(None), *at)] for at in self._places(x)]
            return torch.stack(parts, 3).unflatten(3, self.kernel)
        return padded.unfold(1, down, step_down).unfold(2, across, step_across).permute(0, 1, 2, 4, 5, 3).contiguous()

    def images(self, columns: Tensor, x: Tensor) -> Tensor:
        """The adjoint of `columns`: each window's pixels added up where they came from, shaped like `x`."""
        (top, left), (height, width) = self.padding, x.shape[-2:]
        padded = columns.new_zeros(len(x), height + 2 * top, width + 2 * left, x.shape[1])
        for part, at in zip(columns.flatten(3, 4).unbind(3), self._places(x), strict=True):
            padded[(slice(None), *at)] += part
        return padded[:, top : top + height, left : left + width].permute(0, 3, 1, 2)

    def _places(self, x: Tensor) -> Iterator[tuple[slice, slice]]:
        """Where in the padded images each of the kernel's pixels falls."""
        (height, width), (down, across) = self.output_size(x), self.stride
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                yield (
                    slice(row, row + down * (height - 1) + 1, down),
                    slice(column, column + across * (width - 1) + 1, across),
                )


def task_convolution(x: Tensor, weight: Tensor, bias: Tensor | None, windows: Windows) -> Tensor:
    """Convolve each task's images with its own weight.

    Args:
        x: images of one task after the other, `(tasks n, in, h, w)`.
        weight: `(tasks, out, in, *windows.kernel)`; fastest with the channels last.
        bias: `(tasks, out)`, or None.
        windows: kernel, stride and padding.

    Returns:
        `(tasks n, out, height, width)`, with the channels last in memory.
    """
    fused = x.device.type == "cpu" and not torch.compiler.is_compiling() and not torch.is_autocast_enabled("cpu")
    if not fused:
        return _composed(x, weight, bias, windows)
    function: Any = _Convolution
    y: Tensor = function.apply(x, weight, bias, windows)
    return y


def _composed(x: Tensor, weight: Tensor, bias: Tensor | None, windows: Windows) -> Tensor:
    """The convolution out of operations that have derivatives of any order."""
    function: Any = _Columns
    matrix = _matrix(weight)
    columns = function.apply(x, windows).reshape(len(weight), -1, matrix.shape[-1])
    y = torch.bmm(columns, matrix.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), columns, matrix.mT)
    return _as_images(y, len(x), windows.output_size(x))


def _matrix(weight: Tensor) -> Tensor:
    """Weights `(tasks, out, in, height, width)` as `(tasks, out, height width in)`: no copy with the channels last."""
    return weight.permute(0, 1, 3, 4, 2).flatten(2)


def _as_images(rows: Tensor, count: int, size: tuple[int, int]) -> Tensor:
    """`(tasks, n height width, channels)` as images `(tasks n, channels, height, width)`."""
    return rows.reshape(count, *size, -1).permute(0, 3, 1, 2)


class _Columns(Function):
    """`Windows.columns`, whose derivative is `Windows.images`."""

    @staticmethod
    def forward(x: Tensor, windows: Windows) -> Tensor:
        return windows.columns(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Windows], output: Tensor) -> None:
        x, ctx.windows = inputs
        ctx.like = torch.empty_like(x, device="meta")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        function: Any = _Images
        return function.apply(grad, ctx.like, ctx.windows), None


class _Images(Function):
    """`Windows.images`, whose derivative is `Windows.columns`."""

    @staticmethod
    def forward(columns: Tensor, like: Tensor, windows: Windows) -> Tensor:
        return windows.images(columns, like)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Windows], output: Tensor) -> None:
        ctx.windows = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        function: Any = _Columns
        return function.apply(grad, ctx.windows), None, None


class _Convolution(Function):
    """The convolution a few tasks at a time, so that columns stay in the cache and are never kept."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, windows: Windows) -> Tensor:
        matrix = _matrix(weight)
        size = windows.output_size(x)
        by_task = x.unflatten(0, (len(weight), -1))
        y = x.new_empty(len(weight), by_task.shape[1] * size[0] * size[1], weight.shape[1])
        for part in _parts(y, matrix):
            columns = windows.columns(by_task[part].flatten(0, 1)).view(len(y[part]), -1, matrix.shape[-1])
            if bias is None:
                torch.bmm(columns, matrix[part].mT, out=y[part])
            else:
                torch.baddbmm(bias[part].unsqueeze(1), columns, matrix[part].mT, out=y[part])
        return _as_images(y, len(x), size)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, bias, ctx.windows = inputs
        ctx.save_for_backward(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, weight, bias = ctx.saved_tensors
        wanted: list[bool] = ctx.needs_input_grad
        if torch.is_grad_enabled():
            return *_differentiable_backward(ctx, grad), None
        matrix = _matrix(weight)
        tasks, out, numbers = matrix.shape
        rows = grad.permute(0, 2, 3, 1).reshape(tasks, -1, out)
        by_task = x.unflatten(0, (tasks, -1))
        grad_weight = torch.empty_like(matrix, memory_format=torch.contiguous_format) if wanted[1] else None
        grad_x = torch.empty_like(by_task) if wanted[0] else None
        for part in _parts(rows, matrix):
            images, g = by_task[part].flatten(0, 1), rows[part]
            if grad_weight is not None:
                columns = ctx.windows.columns(images).view(len(g), -1, numbers)
                if numbers < out:  # the longer side of the product is then the one without a transpose
                    grad_weight[part] = torch.bmm(columns.mT, g).mT
                else:
                    torch.bmm(g.mT, columns, out=grad_weight[part])
            if grad_x is not None:
                columns = torch.bmm(g, matrix[part]).view(len(images), *grad.shape[2:], *ctx.windows.kernel, -1)
                grad_x[part] = ctx.windows.images(columns, images).view_as(by_task[part])
        if grad_weight is not None:
            grad_weight = grad_weight.view(tasks, out, *ctx.windows.kernel, -1).permute(0, 1, 4, 2, 3)
        grad_x = None if grad_x is None else grad_x.flatten(0, 1)
        return grad_x, grad_weight, rows.sum(1) if wanted[2] else None, None


def _differentiable_backward(ctx: Any, grad: Tensor) -> list[Tensor | None]:
    inputs = ctx.saved_tensors
    wanted = [tensor for tensor, needed in zip(inputs, ctx.needs_input_grad, strict=False) if needed]
    found = iter(torch.autograd.grad(_composed(*inputs, ctx.windows), wanted, grad, create_graph=True))
    return [next(found) if needed else None for needed in ctx.needs_input_grad[:3]]


def _parts(rows: Tensor, matrix: Tensor) -> Iterator[slice]:
    """The tasks, a few at a time: those whose columns, one row of the matrix for each row, stay in the cache."""
    step = max(1, CHUNK // (rows.shape[1] * matrix.shape[-1]))
    for start in range(0, len(rows), step):
        yield slice(start, start + step)
