"""The convolution of many tasks' images, each task with a weight of its own, as one matrix product a task.

    y = columns(x) weight' + bias        columns: what the kernel sees at each output pixel, (pixels, height width in)

Everything is kept with the channels last, so that making columns copies long runs, results are images without another
copy, and sums over space run along the channels.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

Sides = Sequence[int]
CHUNK = 1 << 20  # numbers in the columns that are made at a time, so that they stay in the cache


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
        padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, *self.padding[1:] * 2, *self.padding[:1] * 2))
        for axis in (0, 1):
            padded = padded.unfold(1 + axis, self.kernel[axis], self.stride[axis])
        return padded.permute(0, 1, 2, 4, 5, 3)

    def images(self, columns: Tensor, padded: Tensor) -> Tensor:
        """The adjoint of `columns`: each window's pixels added up where they came from.

        Args:
            columns: `(N, height, width, kernel, kernel, C)`.
            padded: room for the padded images, `(N, h + 2 padding, w + 2 padding, C)`.

        Returns:
            The images `(N, C, h, w)`, a view of that room.
        """
        (height, width), (down, across) = columns.shape[1:3], self.stride
        tiled = self.kernel[0] >= down and self.kernel[1] >= across
        padded[:, down * height if tiled else 0 :].zero_()
        padded[:, :, across * width if tiled else 0 :].zero_()
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                place = padded[:, row:, column:][:, : down * height : down, : across * width : across]
                # The first of them lie side by side and so need no zeros to be added to.
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
    if x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return _composed(x, weight, bias, windows)
    y: Tensor = _apply(_Convolution, x, weight, bias, windows)
    return y


def _composed(x: Tensor, weight: Tensor, bias: Tensor | None, windows: Windows) -> Tensor:
    """The convolution out of operations that have derivatives of any order."""
    matrix = _matrix(weight)
    columns = _apply(_Columns, x, windows).reshape(len(weight), -1, matrix.shape[-1])
    y = torch.bmm(columns, matrix.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), columns, matrix.mT)
    return _as_images(y, len(x), windows.output_size(x))


def _apply(function: Any, *arguments: Any) -> Any:
    """`function.apply(*arguments)`, in eager mode without its inspection of signatures."""
    if torch.compiler.is_compiling():
        return function.apply(*arguments)
    return super(Function, function).apply(*arguments)


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
        return windows.columns(x).contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Windows], output: Tensor) -> None:
        x, ctx.windows = inputs
        ctx.like = torch.empty_like(x, device="meta")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _apply(_Images, grad, ctx.like, ctx.windows), None


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
        return _apply(_Columns, grad, ctx.windows), None, None


class _Convolution(Function):
    """The convolution a few tasks at a time, so that columns stay in the cache and are never kept."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, windows: Windows) -> Tensor:
        if torch.compiler.is_compiling():
            y: Tensor = torch.ops.tasknorm.convolution(x, weight, bias, *windows)
            return y
        return _forward(x, weight, bias, *windows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, bias, ctx.windows = inputs
        ctx.save_for_backward(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, weight, bias = ctx.saved_tensors
        wants_x, wants_weight, wants_bias, _ = ctx.needs_input_grad
        if torch.compiler.is_compiling():
            backward = torch.ops.tasknorm.convolution_backward
        elif torch.is_grad_enabled():
            return *_differentiable_backward(ctx, grad), None
        else:
            backward = _backward
        grad_x, grad_weight, grad_bias = backward(grad, x, weight, *ctx.windows, wants_x)
        return (
            grad_x if wants_x else None,
            grad_weight if wants_weight else None,
            grad_bias if wants_bias else None,
            None,
        )


def _differentiable_backward(ctx: Any, grad: Tensor) -> list[Tensor | None]:
    inputs = ctx.saved_tensors
    wanted = [tensor for tensor, needed in zip(inputs, ctx.needs_input_grad, strict=False) if needed]
    found = iter(torch.autograd.grad(_composed(*inputs, ctx.windows), wanted, grad, create_graph=True))
    return [next(found) if needed else None for needed in ctx.needs_input_grad[:3]]


def _forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, kernel: Sides, stride: Sides, padding: Sides
) -> Tensor:
    windows = Windows(kernel, stride, padding)
    matrix = _matrix(weight)
    y = _new_images(x, weight, windows)
    rows, by_task = _by_task(y, len(weight)), x.unflatten(0, (len(weight), -1))
    for part in _parts(rows, matrix):
        columns = _in_scratch(0, windows.columns(by_task[part].flatten(0, 1))).view(*rows[part].shape[:2], -1)
        if bias is None:
            torch.bmm(columns, matrix[part].mT, out=rows[part])
        else:
            torch.baddbmm(bias[part].unsqueeze(1), columns, matrix[part].mT, out=rows[part])
    return y


def _backward(
    grad: Tensor, x: Tensor, weight: Tensor, kernel: Sides, stride: Sides, padding: Sides, wants_x: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of images, weight and bias; that of the images is empty if it is not wanted."""
    windows = Windows(kernel, stride, padding)
    matrix = _matrix(weight)
    tasks, out, numbers = matrix.shape
    rows, by_task = _by_task(grad, tasks), x.unflatten(0, (tasks, -1))
    grad_matrix = matrix.new_empty(matrix.shape)
    room = windows.room(x)
    each = by_task.shape[1]
    for part in _parts(rows, matrix):
        images, g = by_task[part].flatten(0, 1), rows[part]
        columns = _in_scratch(0, windows.columns(images)).view(*g.shape[:2], -1)
        if numbers < out:  # a product with the longer side last is faster
            grad_matrix[part] = torch.bmm(columns.mT, g).mT
        else:
            torch.bmm(g.mT, columns, out=grad_matrix[part])
        if wants_x:
            grad_columns = torch.bmm(g, matrix[part], out=_scratch(1, columns))
            grad_columns = grad_columns.view(len(images), *grad.shape[2:], *kernel, -1)
            windows.images(grad_columns, room[part.start * each : part.stop * each])
    grad_x = windows.inside(room) if wants_x else x.new_empty(0)
    return grad_x, _as_weight(grad_matrix, weight), rows.sum(1)


_kept = threading.local()


def _scratch(which: int, like: Tensor) -> Tensor:
    """Contiguous memory like this tensor, kept from call to call: fresh memory costs more than what is done in it."""
    memory: dict[Any, Tensor] = _kept.__dict__
    key = f"{which} {like.dtype}"
    if key not in memory or memory[key].numel() < like.numel():
        with torch.inference_mode(False):
            memory[key] = torch.empty(max(CHUNK, like.numel()), dtype=like.dtype)
    return memory[key][: like.numel()].view(like.shape)


def _in_scratch(which: int, x: Tensor) -> Tensor:
    return _scratch(which, x).copy_(x)


def _by_task(images: Tensor, tasks: int) -> Tensor:
    """`(tasks n, channels, height, width)` as `(tasks, n height width, channels)`."""
    return images.permute(0, 2, 3, 1).reshape(tasks, -1, images.shape[1])


def _new_images(x: Tensor, weight: Tensor, windows: Windows) -> Tensor:
    return x.new_empty(len(x), *windows.output_size(x), weight.shape[1]).permute(0, 3, 1, 2)


def _as_weight(matrix: Tensor, weight: Tensor) -> Tensor:
    """The reverse of `_matrix`."""
    tasks, out, channels, *kernel = weight.shape
    return matrix.view(tasks, out, *kernel, channels).permute(0, 1, 4, 2, 3)


def _parts(rows: Tensor, matrix: Tensor) -> Iterator[slice]:
    """The tasks, a few at a time: those whose columns, one row of the matrix for each row, stay in the cache."""
    parts = -(-len(rows) * rows.shape[1] * matrix.shape[-1] // CHUNK)
    step = -(-len(rows) // parts)
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


# For the compiler these are operators that it does not look into: it would make slow loops of them.
_LIBRARY = torch.library.Library("tasknorm", "FRAGMENT")
_WINDOWS = "int[] kernel, int[] stride, int[] padding"
_LIBRARY.define(f"convolution(Tensor x, Tensor weight, Tensor? bias, {_WINDOWS}) -> Tensor")
_LIBRARY.define(
    f"convolution_backward(Tensor grad, Tensor x, Tensor weight, {_WINDOWS}, bool wants_x) -> (Tensor, Tensor, Tensor)"
)
_LIBRARY.impl("convolution", _forward, "CPU")
_LIBRARY.impl("convolution_backward", _backward, "CPU")


@torch.library.register_fake("tasknorm::convolution", lib=_LIBRARY)
def _(x: Tensor, weight: Tensor, bias: Tensor | None, kernel: Sides, stride: Sides, padding: Sides) -> Tensor:
    return _new_images(x, weight, Windows(kernel, stride, padding))


@torch.library.register_fake("tasknorm::convolution_backward", lib=_LIBRARY)
def _(
    grad: Tensor, x: Tensor, weight: Tensor, kernel: Sides, stride: Sides, padding: Sides, wants_x: bool
) -> tuple[Tensor, Tensor, Tensor]:
    windows = Windows(kernel, stride, padding)
    matrix = _matrix(weight)
    return (
        windows.inside(windows.room(x)) if wants_x else x.new_empty(0),
        _as_weight(matrix.new_empty(matrix.shape), weight),
        grad.new_empty(matrix.shape[:2]),
    )
