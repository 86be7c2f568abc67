"""The convolution of many tasks' images, each task with a weight of its own, as one matrix product per task.

    y = columns(x) weight' + bias        columns: what the kernel sees at each output pixel, (pixels, height width in)

Torch's own convolution is faster if all tasks share one weight, as in MAML's first step, and for the gradient of a
shared weight: the images of all tasks are then one batch.

All tensors have the channels last in memory: columns are then copied in long runs, results are images without another
copy, and sums over space run along the channels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from tasknorm.kernels.task_products import as_matrix, convolved, gradients, keeps_columns, second_gradients
from tasknorm.kernels.tracing import apply
from tasknorm.kernels.windows import Windows, columns


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
        x: images, one task after the other, `(tasks n, in, h, w)`.
        weight: `(tasks, out, in, *windows.kernel)`; fastest with the channels last, or expanded from one task's.
        bias: `(tasks, out)`, or None.
        windows: kernel, stride and padding.
        adapted_weight: if given, the weight to convolve with, a constant `(tasks, out, in, *windows.kernel)`. Its
            gradient goes to `weight`, which is then `(out, in, *windows.kernel)`: see `tied`.
        adapted_bias: the same for `bias`.

    Returns:
        `(tasks n, out, height, width)`, with the channels last in memory.
    """
    if x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return _composed(x, *_tied(weight, bias, adapted_weight, adapted_bias), windows)
    at = weight if adapted_weight is None else adapted_weight
    if not x.requires_grad and keeps_columns(x, at, windows):
        return _of_few_columns(x, *_tied(weight, bias, adapted_weight, adapted_bias), windows)
    y: Tensor = apply(_Convolution, x, weight, bias, adapted_weight, adapted_bias, windows)
    return y


def tied(initial: Tensor, adapted: Tensor) -> Tensor:
    """The adapted weights of tasks, `(tasks, ...)`, whose gradients are summed into the initial weights, `(...)`.

    As in first-order MAML: adapted = initial - inner_lr gradients, where the gradients are constants.
    """
    return adapted + (initial - initial.detach())


def _tied(
    weight: Tensor, bias: Tensor | None, adapted_weight: Tensor | None, adapted_bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    if adapted_weight is None:
        return weight, bias
    return tied(weight, adapted_weight), None if bias is None or adapted_bias is None else tied(bias, adapted_bias)


def _composed(x: Tensor, weight: Tensor, bias: Tensor | None, windows: Windows) -> Tensor:
    """The convolution, composed of operations that have derivatives of any order."""
    matrix = as_matrix(weight)
    seen = columns(x, windows).reshape(len(weight), -1, matrix.shape[-1])
    y = torch.bmm(seen, matrix.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), seen, matrix.mT)
    return _as_images(y, len(x), windows.output_size(x))


def _of_few_columns(x: Tensor, weight: Tensor, bias: Tensor | None, windows: Windows) -> Tensor:
    """The convolution of images that need no gradient, whose columns are kept for that of the weight."""
    seen: Tensor = torch.ops.tasknorm.few_columns(x, len(weight), *windows)
    matrix = weight.flatten(2)
    y = torch.bmm(seen.mT, matrix.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), seen.mT, matrix.mT)
    return _as_images(y, len(x), windows.output_size(x))


def _as_images(rows: Tensor, count: int, size: tuple[int, int]) -> Tensor:
    """`(tasks, n height width, channels)` as images `(tasks n, channels, height, width)`."""
    return rows.reshape(count, *size, -1).permute(0, 3, 1, 2)


class _Convolution(Function):
    """The convolution by `task_products`."""

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
        return convolved(x, *at, *windows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.windows = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        saved = ctx.saved_tensors  # once: torch's checkpoint computes them again
        x, weight, _, adapted_weight, _ = saved
        wants_x, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        compiling = torch.compiler.is_compiling()
        is_tied = adapted_weight is not None
        if torch.is_grad_enabled() and not compiling:
            at = tied(weight, adapted_weight) if is_tied else weight
            grad_x, grad_weight, grad_bias = apply(_Gradients, grad, x, at, ctx.windows, wants_x)
            if is_tied:
                grad_weight, grad_bias = grad_weight.sum(0), grad_bias.sum(0)
        else:
            found: Any = torch.ops.tasknorm.gradients_of_convolution if compiling else gradients
            at = adapted_weight if is_tied else weight
            grad_x, grad_weight, grad_bias = found(grad, x, at, *ctx.windows, wants_x, is_tied)
        return (
            grad_x if wants_x else None,
            grad_weight if wants_weight else None,
            grad_bias if wants_bias else None,
            None,
            None,
            None,
        )


class _Gradients(Function):
    """The gradients of images, weight and bias, as functions of the convolution's gradient, images and weight."""

    @staticmethod
    def forward(grad: Tensor, x: Tensor, weight: Tensor, windows: Windows, wants_x: bool) -> tuple[Tensor, ...]:
        return gradients(grad, x, weight, *windows, wants_x, is_tied=False)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.windows, ctx.wants_x = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *by: Tensor) -> Any:
        if torch.is_grad_enabled():
            return *_composed_second_gradients(ctx, by), None, None
        grad, x, weight = ctx.saved_tensors
        by_images, by_weight, by_bias = by
        by_grad, by_x, by_weight_ = second_gradients(
            (by_images if ctx.wants_x else None, by_weight, by_bias), grad, x, weight, ctx.windows
        )
        return by_grad, by_x, by_weight_, None, None


def _composed_second_gradients(ctx: Any, by: tuple[Tensor, ...]) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The derivatives of the gradients, composed of operations that have derivatives of any order."""
    grad, x, weight = ctx.saved_tensors
    by_images, by_weight, by_bias = by
    total = _composed(x, by_weight, by_bias, ctx.windows)
    if not ctx.wants_x:
        return total, None, None
    zero = torch.zeros_like(by_bias)
    by_x, _, _ = apply(_Gradients, grad, x, by_weight, ctx.windows, True)
    _, by_own_weight, _ = apply(_Gradients, grad, by_images, weight, ctx.windows, False)
    return total + _composed(by_images, weight, zero, ctx.windows), by_x, by_own_weight
