"""The two passes over the activation that every norm shares: `instance_moments` reads it, `scale_shift` writes it.

Every norm of the paper is affine in the activation, per example and channel, and every moment that it uses follows
from the instance moments. So only these two functions touch the activation; all else is arithmetic on small
`(examples, channels)` tables. Their derivatives, of any order, need one more reduction, `row_sums`, and nothing else:

    row_sums(g, a, mu)        = sum g,  sum g (a - mu)                       over the space of each example and channel
    d scale_shift / d(a, ...) = g scale  and  row_sums(g, a, mu)
    d instance_moments / d a  = scale_shift(a, mu, 2 dvar / P, dmean / P)    with P the number of pixels

In eager mode these are autograd functions over torch's native batch norm kernels; under `torch.compile` and
`torch.export` they are plain operations, which the compiler fuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from tasknorm.moments import Moments
from tasknorm.tracing import apply

_CHUNK = 1 << 18  # activations of which a centred copy stays in the cache


def instance_moments(a: Tensor) -> tuple[Tensor, Moments]:
    """Mean and biased variance of each example's channel (the paper's IN moments, section 3.3).

    Args:
        a: activations, `(N, C, *space)` with at least one axis of space.

    Returns:
        The activations again, and their moments, each `(N, C)`, in float32 or better. Pass on the returned
        activations: their gradient and that of the moments then meet in one place and need no memory of their own.

    >>> _, (mean, var) = instance_moments(torch.arange(8.0).reshape(1, 2, 4))
    >>> mean, var
    (tensor([[1.5000, 5.5000]]), tensor([[1.2500, 1.2500]]))
    """
    if torch.compiler.is_compiling():
        return a, Moments(*_plain_moments(a))
    a, mean, var = apply(_InstanceMoments, a)
    return a, Moments(mean, var)


def scale_shift(a: Tensor, mean: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """`(a - mean) * scale + shift`, with one mean, scale and shift for each example and channel.

    Args:
        a: activations, `(N, C, *space)` with at least one axis of space.
        mean, scale, shift: tables that broadcast to `(N, C)`.

    Returns:
        A tensor like `a`.

    >>> scale_shift(torch.ones(2, 1, 3), torch.zeros(2, 1), torch.tensor([[1.0], [2.0]]), torch.tensor([5.0]))
    tensor([[[6., 6., 6.]],
    <BLANKLINE>
            [[7., 7., 7.]]])
    """
    if torch.compiler.is_compiling():
        return _plain_scale_shift(a, mean, scale, shift)
    result: Tensor = apply(_ScaleShift, a, mean, scale, shift)
    return result


class _InstanceMoments(Function):
    @staticmethod
    def forward(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        moments = _native_moments if _is_native(a) else _last_moments if _is_channels_last(a) else _plain_moments
        mean, var = moments(a)
        return a.view_as(a), mean, var

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, grad_a: Tensor | None, grad_mean: Tensor | None, grad_var: Tensor | None) -> Tensor | None:
        a, mean = ctx.saved_tensors
        if grad_mean is None and grad_var is None:
            return grad_a
        zero = torch.zeros_like(mean)
        pixels = a[0, 0].numel()
        scale = zero if grad_var is None else grad_var * (2 / pixels)
        shift = zero if grad_mean is None else grad_mean / pixels
        if grad_a is None:
            return scale_shift(a, mean, scale, shift)
        if torch.is_grad_enabled() or grad_a.dtype != mean.dtype:
            return grad_a + scale_shift(a, mean, scale, shift)
        # grad_a was made by scale_shift's backward for this function alone, so it may be reused.
        return grad_a.addcmul_(a, _over_space(scale, a)).add_(_over_space(shift - mean * scale, a))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], a: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, int, int]]:
        folded = apply(_InstanceMoments, _fold(a, in_dims[0], info.batch_size))
        return tuple(t.unflatten(0, (info.batch_size, -1)) for t in folded), (0, 0, 0)


class _ScaleShift(Function):
    @staticmethod
    def forward(a: Tensor, mean: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        if _is_channels_last(a):
            return _last_scale_shift(a, mean, scale, shift)
        if not _is_native(a):
            return _plain_scale_shift(a, mean, scale, shift)
        view, (mean, scale, shift) = _channel_view(a, mean, scale, shift)
        # Batch norm in eval mode with variance 1 and no eps is this very function.
        return torch.native_batch_norm(view, scale, shift, mean, torch.ones_like(mean), False, 0.0, 0.0)[0].view_as(a)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Tensor], output: Tensor) -> None:
        a, mean, scale, shift = inputs
        ctx.save_for_backward(a, mean, scale)
        ctx.shift_shape = shift.shape
        ctx.rows = _rows(mean, scale, shift)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
        a, mean, scale = ctx.saved_tensors
        grad_a = (grad * _over_space(scale, a)).to(a.dtype) if ctx.needs_input_grad[0] else None
        if not any(ctx.needs_input_grad[1:]):
            return grad_a, None, None, None
        total, centred = apply(_RowSums, grad, a, mean, ctx.rows)
        return (
            grad_a,
            -(total * scale).sum_to_size(mean.shape) if ctx.needs_input_grad[1] else None,
            centred.sum_to_size(scale.shape) if ctx.needs_input_grad[2] else None,
            total.sum_to_size(ctx.shift_shape) if ctx.needs_input_grad[3] else None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], a: Tensor, *tables: Tensor) -> tuple[Tensor, int]:
        a = _fold(a, in_dims[0], info.batch_size)
        folded = list(_fold_tables(a, info.batch_size, in_dims[1:], tables))
        return apply(_ScaleShift, a, *folded).unflatten(0, (info.batch_size, -1)), 0


class _RowSums(Function):
    """`sum g` and `sum g (a - mean)` over space, and over examples too where `rows` is 1: each `(rows, C)`."""

    @staticmethod
    def forward(g: Tensor, a: Tensor, mean: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        if _is_channels_last(a):
            return _last_row_sums(g, a, mean, rows)
        g = g.contiguous() if _is_native(a) else g
        if not (_is_native(g) and _is_native(a)):
            return _plain_row_sums(g, a, mean, rows)
        shape = (len(a) // rows, rows * a.shape[1], -1)
        mean = _flat(mean, rows, a.shape[1])
        # Batch norm's gradients of bias and weight, for a saved mean and an inverse deviation of 1, are these sums.
        _, centred, total = torch.ops.aten.native_batch_norm_backward(
            g.view(shape),
            a.view(shape),
            None,
            None,
            None,
            mean,
            torch.ones_like(mean),
            True,
            0.0,
            [False, True, True],
        )
        return total.view(rows, -1), centred.view(rows, -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, int], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs[:3], output[0])

    @staticmethod
    def backward(ctx: Any, grad_total: Tensor, grad_centred: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        g, a, mean, total = ctx.saved_tensors
        grad_g = scale_shift(a, mean, grad_centred, grad_total)
        grad_a = g * _over_space(grad_centred, a)
        return grad_g.to(g.dtype), grad_a.to(a.dtype), -(grad_centred * total).sum_to_size(mean.shape), None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], g: Tensor, a: Tensor, mean: Tensor, rows: int
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        size = info.batch_size
        g, a = _fold(g, in_dims[0], size), _fold(a, in_dims[1], size)
        (mean,) = _fold_tables(a, size, in_dims[2:3], (mean,))
        total, centred = (t.unflatten(0, (size, -1)) for t in apply(_RowSums, g, a, mean, len(a)))
        if rows == 1:
            total, centred = total.sum(1, keepdim=True), centred.sum(1, keepdim=True)
        return (total, centred), (0, 0)


def _is_native(a: Tensor) -> bool:
    return a.device.type == "cpu" and a.dtype in (torch.float32, torch.float64) and a.is_contiguous()


def _is_channels_last(a: Tensor) -> bool:
    """Whether the channels are last in memory; a map of one pixel counts as contiguous."""
    return (
        a.device.type == "cpu"
        and a.dtype in (torch.float32, torch.float64)
        and a.is_contiguous(memory_format=torch.channels_last)
        and not a.is_contiguous()
    )


def _rows(*tables: Tensor) -> int:
    """N where some table differs by example, 1 where all examples share theirs."""
    return max(len(table) if table.ndim == 2 else 1 for table in tables)


def _channel_view(a: Tensor, *tables: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """`a` with the examples among the channels where a table differs by example, and the tables to match."""
    rows = _rows(*tables)
    view = a.view(len(a) // rows, rows * a.shape[1], -1)
    return view, tuple(_flat(table, rows, a.shape[1]) for table in tables)


def _flat(table: Tensor, rows: int, channels: int) -> Tensor:
    """A table as the native kernels read it: one number after the other, also where it was broadcast."""
    return table.expand(rows, channels).reshape(-1).contiguous()


def _native_moments(a: Tensor) -> tuple[Tensor, Tensor]:
    rows = a.view(a.shape[0] * a.shape[1], -1)
    mean = rows.mean(1, keepdim=True)
    deviation = torch.empty_like(mean[:, 0])
    # The deviations of a few rows at a time stay in the cache: as exact as two passes, and no copy of the activation.
    step = max(1, _CHUNK // rows.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        torch.linalg.vector_norm(rows[part] - mean[part], dim=1, out=deviation[part])
    return mean.view(a.shape[:2]), (deviation.square_() / rows.shape[1]).view(a.shape[:2])


def _last_moments(a: Tensor) -> tuple[Tensor, Tensor]:
    pixels = _pixels_of(a)
    mean = pixels.mean(1)
    var = torch.empty_like(mean)
    for part in _chunks(pixels):
        deviation = pixels[part] - mean[part].unsqueeze(1)
        torch.mean(deviation.mul_(deviation), 1, out=var[part])
    return mean, var


def _last_scale_shift(a: Tensor, mean: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    scale, shift = (
        torch.atleast_2d(table).expand(-1, a.shape[1]).unsqueeze(1) for table in (scale, shift - mean * scale)
    )
    pixels = torch.addcmul(shift, _pixels_of(a), scale)
    return pixels.view(len(a), *a.shape[2:], -1).permute(0, 3, 1, 2)


def _last_row_sums(g: Tensor, a: Tensor, mean: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    g, pixels = _pixels_of(g), _pixels_of(a)
    total, mean = g.sum(1), mean.expand(len(a), a.shape[1])
    centred = torch.empty_like(total)
    for part in _chunks(pixels):
        deviation = pixels[part] - mean[part].unsqueeze(1)
        torch.sum(deviation.mul_(g[part]), 1, out=centred[part])
    return (total, centred) if rows > 1 else (total.sum(0, keepdim=True), centred.sum(0, keepdim=True))


def _pixels_of(a: Tensor) -> Tensor:
    """`(N, C, height, width)` as `(N, height width, C)`: a view if the channels are last in memory."""
    return a.permute(0, 2, 3, 1).flatten(1, 2)


def _chunks(pixels: Tensor) -> Iterator[slice]:
    step = max(1, _CHUNK // pixels[0].numel())
    for start in range(0, len(pixels), step):
        yield slice(start, start + step)


def _plain_moments(a: Tensor) -> tuple[Tensor, Tensor]:
    var, mean = torch.var_mean(_at_least_float(a), tuple(range(2, a.ndim)), correction=0)
    return mean, var


def _plain_scale_shift(a: Tensor, mean: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """One multiplication and one addition for each number, as batch norm does it."""
    scale, shift = _over_space(scale, a), _over_space(shift - mean * scale, a)
    return (_at_least_float(a) * scale + shift).to(a.dtype)


def _plain_row_sums(g: Tensor, a: Tensor, mean: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    space = tuple(range(2, a.ndim))
    g = _at_least_float(g)
    centred = (g * (_at_least_float(a) - _over_space(mean, a))).sum(space)
    total = g.sum(space)
    return (total, centred) if rows > 1 else (total.sum(0, keepdim=True), centred.sum(0, keepdim=True))


def _at_least_float(a: Tensor) -> Tensor:
    return a.float() if a.dtype in (torch.float16, torch.bfloat16) else a


def _over_space(table: Tensor, a: Tensor) -> Tensor:
    return table[(..., *(None,) * (a.ndim - 2))]


def _fold(a: Tensor, dim: int | None, size: int) -> Tensor:
    """The vmapped axis laid among the examples: what is done per example needs no other rule for vmap."""
    a = a.expand(size, *a.shape) if dim is None else a.movedim(dim, 0)
    return a.flatten(0, 1)


def _fold_tables(a: Tensor, size: int, in_dims: tuple[int | None, ...], tables: tuple[Tensor, ...]) -> Iterator[Tensor]:
    for table, dim in zip(tables, in_dims, strict=True):
        stacked = table.expand(size, *table.shape) if dim is None else table.movedim(dim, 0)
        stacked = stacked.unsqueeze(1) if stacked.ndim == 2 else stacked
        yield stacked.expand(size, len(a) // size, a.shape[1]).flatten(0, 1)
