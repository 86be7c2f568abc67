"""The convolution of many tasks' images, each task with a weight of its own, as one matrix product a task.

    y = columns(x) weight' + bias        columns: what the kernel sees at each output pixel, (pixels, height width in)

Everything is kept with the channels last, so that making columns copies long runs, results are images without another
copy, and sums over space run along the channels.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from tasknorm.nets.windows import Sides, Windows, apply, columns

CHUNK = 1 << 20  # numbers in the columns that are made at a time


def task_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    windows: Windows,
    adapted_weight: Tensor | None = None,
    adapted_bias: Tensor | None = None,
) -> Tensor:
    """Convolve each task's images with its own weight.

    Args:
        x: images of one task after the other, `(tasks n, in, h, w)`.
        weight: `(tasks, out, in, *windows.kernel)`; fastest with the channels last, or expanded from one task's.
        bias: `(tasks, out)`, or None.
        windows: kernel, stride and padding.
        adapted_weight: if given, what to convolve with, a constant `(tasks, out, in, *windows.kernel)`. The derivative
            by it is that by `weight`, which is then `(out, in, *windows.kernel)`: see `tied`.
        adapted_bias: the same for `bias`.

    Returns:
        `(tasks n, out, height, width)`, with the channels last in memory.
    """
    if x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return _composed(x, *_tied(weight, bias, adapted_weight, adapted_bias), windows)
    y: Tensor = apply(_Convolution, x, weight, bias, adapted_weight, adapted_bias, windows)
    return y


def tied(initial: Tensor, adapted: Tensor) -> Tensor:
    """The adapted weights of tasks, `(tasks, ...)`, whose derivative by the initial ones, `(...)`, is that of a sum.

    First-order MAML's: adapted = initial - inner_lr gradients, the latter constants.
    """
    return adapted + (initial - initial.detach())


def _tied(
    weight: Tensor, bias: Tensor | None, adapted_weight: Tensor | None, adapted_bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    if adapted_weight is None:
        return weight, bias
    return tied(weight, adapted_weight), None if bias is None or adapted_bias is None else tied(bias, adapted_bias)


def _composed(x: Tensor, weight: Tensor, bias: Tensor | None, windows: Windows) -> Tensor:
    """The convolution out of operations that have derivatives of any order."""
    matrix = _matrix(weight)
    seen = columns(x, windows).reshape(len(weight), -1, matrix.shape[-1])
    y = torch.bmm(seen, matrix.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), seen, matrix.mT)
    return _as_images(y, len(x), windows.output_size(x))


def _matrix(weight: Tensor) -> Tensor:
    """Weights `(tasks, out, in, height, width)` as `(tasks, out, height width in)`: no copy with the channels last."""
    return weight.permute(0, 1, 3, 4, 2).flatten(2)


def _as_images(rows: Tensor, count: int, size: tuple[int, int]) -> Tensor:
    """`(tasks, n height width, channels)` as images `(tasks n, channels, height, width)`."""
    return rows.reshape(count, *size, -1).permute(0, 3, 1, 2)


class _Convolution(Function):
    """The convolution a few tasks at a time, so that columns stay in the cache and are never kept."""

    @staticmethod
    def forward(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        adapted_weight: Tensor | None,
        adapted_bias: Tensor | None,
        windows: Windows,
    ) -> Tensor:
        at = (weight, bias) if adapted_weight is None else (adapted_weight, adapted_bias)
        if torch.compiler.is_compiling():
            y: Tensor = torch.ops.tasknorm.convolution(x, *at, *windows)
            return y
        return _forward(x, *at, *windows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.windows = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight, _, adapted_weight, _ = ctx.saved_tensors
        wants_x, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        backward: Any = torch.ops.tasknorm.convolution_backward if torch.compiler.is_compiling() else _backward
        if backward is _backward and torch.is_grad_enabled():
            return _differentiable_backward(ctx, grad)
        is_tied = adapted_weight is not None
        at = adapted_weight if is_tied else weight
        grad_x, grad_weight, grad_bias = backward(grad, x, at, *ctx.windows, wants_x, is_tied)
        return (
            grad_x if wants_x else None,
            grad_weight if wants_weight else None,
            grad_bias if wants_bias else None,
            None,
            None,
            None,
        )


def _differentiable_backward(ctx: Any, grad: Tensor) -> Any:
    """The gradients with a graph, for second derivatives."""
    x, *weights = ctx.saved_tensors
    needed: list[bool] = ctx.needs_input_grad[:3]
    wanted = [tensor for tensor, is_needed in zip((x, *weights[:2]), needed, strict=True) if is_needed]
    y = _composed(x, *_tied(*weights), ctx.windows)
    found = iter(torch.autograd.grad(y, wanted, grad, create_graph=True))
    return *(next(found) if is_needed else None for is_needed in needed), None, None, None


def _forward(x: Tensor, weight: Tensor, bias: Tensor | None, kernel: Sides, stride: Sides, padding: Sides) -> Tensor:
    windows = Windows(kernel, stride, padding)
    matrix = _matrix(weight)
    y = _new_images(x, weight, windows)
    rows, by_task = _by_task(y, len(weight)), x.unflatten(0, (len(weight), -1))
    one = _is_one(weight) and (bias is None or _is_one(bias))
    for part in _parts(rows, matrix):
        seen = _in_scratch(0, windows.columns(by_task[part].flatten(0, 1))).view(*rows[part].shape[:2], -1)
        at, to = matrix[part].mT, rows[part]
        if one and bias is None:
            torch.mm(seen.flatten(0, 1), at[0], out=to.flatten(0, 1))
        elif one and bias is not None:
            torch.addmm(bias[0], seen.flatten(0, 1), at[0], out=to.flatten(0, 1))
        elif bias is None:
            torch.bmm(seen, at, out=to)
        else:
            torch.baddbmm(bias[part].unsqueeze(1), seen, at, out=to)
    return y


def _backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    kernel: Sides,
    stride: Sides,
    padding: Sides,
    wants_x: bool,
    is_tied: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of images, weight and bias, the latter two summed over tasks if these are tied.

    That of the images is empty if it is not wanted.
    """
    windows = Windows(kernel, stride, padding)
    matrix = _matrix(weight)
    tasks, out, numbers = matrix.shape
    rows, by_task = _by_task(grad, tasks), x.unflatten(0, (tasks, -1))
    tall = numbers < out  # a product with the longer side last is faster
    shape = (numbers, out) if tall else (out, numbers)
    grad_matrix = matrix.new_zeros(shape) if is_tied else matrix.new_empty(tasks, *shape)
    room = windows.room(x)
    each = by_task.shape[1]
    for part in _parts(rows, matrix):
        images, g = by_task[part].flatten(0, 1), rows[part]
        seen = _in_scratch(0, windows.columns(images)).view(*g.shape[:2], -1)
        left, right = (seen, g) if tall else (g, seen)
        if is_tied:
            grad_matrix.addmm_(left.flatten(0, 1).mT, right.flatten(0, 1))
        else:
            torch.bmm(left.mT, right, out=grad_matrix[part])
        if wants_x:
            grad_columns = _scratch(1, seen)
            if _is_one(weight):
                torch.mm(g.flatten(0, 1), matrix[0], out=grad_columns.flatten(0, 1))
            else:
                torch.bmm(g, matrix[part], out=grad_columns)
            windows.images(
                grad_columns.view(len(images), *grad.shape[2:], *kernel, -1),
                room[part.start * each : part.stop * each],
            )
    grad_x = windows.inside(room) if wants_x else x.new_empty(0)
    grad_weight = _as_weight(grad_matrix.mT if tall else grad_matrix, weight)
    return grad_x, grad_weight, rows.sum((0, 1) if is_tied else 1)


def _is_one(weights: Tensor) -> bool:
    """Whether all tasks share one weight, so that a product of all rows, which is faster, may stand for theirs."""
    return weights.stride(0) == 0


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
    """The reverse of `_matrix`, with or without an axis of tasks."""
    channels, *kernel = weight.shape[2:]
    return matrix.unflatten(-1, (*kernel, channels)).movedim(-1, -3)


def _parts(rows: Tensor, matrix: Tensor) -> Iterator[slice]:
    """The tasks, a few at a time: those whose columns, and what they are multiplied to, stay in the cache."""
    parts = -(-len(rows) * rows.shape[1] * max(matrix.shape[1:]) // CHUNK)
    step = -(-len(rows) // parts)
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


# For the compiler these are operators that it does not look into: it would make slow loops of them.
_LIBRARY = torch.library.Library("tasknorm", "FRAGMENT")
_WINDOWS = "int[] kernel, int[] stride, int[] padding"
_LIBRARY.define(f"convolution(Tensor x, Tensor weight, Tensor? bias, {_WINDOWS}) -> Tensor")
_LIBRARY.define(
    f"convolution_backward(Tensor grad, Tensor x, Tensor weight, {_WINDOWS}, bool wants_x, bool is_tied) "
    "-> (Tensor, Tensor, Tensor)"
)
_LIBRARY.impl("convolution", _forward, "CPU")
_LIBRARY.impl("convolution_backward", _backward, "CPU")


def _fake_forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, kernel: Sides, stride: Sides, padding: Sides
) -> Tensor:
    return _new_images(x, weight, Windows(kernel, stride, padding))


def _fake_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    kernel: Sides,
    stride: Sides,
    padding: Sides,
    wants_x: bool,
    is_tied: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    windows = Windows(kernel, stride, padding)
    tasks, out, numbers = _matrix(weight).shape
    lead = () if is_tied else (tasks,)
    tall = numbers < out
    matrix = weight.new_empty(*lead, *((numbers, out) if tall else (out, numbers)))
    return (
        windows.inside(windows.room(x)) if wants_x else x.new_empty(0),
        _as_weight(matrix.mT if tall else matrix, weight),
        grad.new_empty(*lead, out),
    )


torch.library.register_fake("tasknorm::convolution", _fake_forward, lib=_LIBRARY)
torch.library.register_fake("tasknorm::convolution_backward", _fake_backward, lib=_LIBRARY)
