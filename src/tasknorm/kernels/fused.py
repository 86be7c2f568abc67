"""The two passes over the activation that every norm shares: `instance_moments` reads it, `scale_shift` writes it.

Every norm of the paper is affine in the activation, per example and channel, and every moment that it uses follows
from the instance moments. So only these two functions touch the activation; everything else is arithmetic on
small `(examples, channels)` tables. Their derivatives, of any order, need only one more reduction, `row_sums`:

    row_sums(g, a, mu)        = sum g,  sum g (a - mu)                       over the space of each example and channel
    d scale_shift / d(a, ...) = g scale  and  row_sums(g, a, mu)
    d instance_moments / d a  = scale_shift(a, mu, 2 dvar / P, dmean / P)    with P the number of pixels

In eager mode these are autograd functions over `passes`; under `torch.compile` and `torch.export` they are plain
operations, which the compiler fuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from tasknorm.kernels import passes
from tasknorm.kernels.passes import over_space
from tasknorm.kernels.tracing import apply
from tasknorm.moments import Moments


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
        return a, Moments(*passes.plain_moments(a))
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
        return passes.plain_scale_shift(a, mean, scale, shift)
    result: Tensor = apply(_ScaleShift, a, mean, scale, shift)
    return result


class _InstanceMoments(Function):
    @staticmethod
    def forward(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, var = passes.moments(a)
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
        return grad_a.addcmul_(a, over_space(scale, a)).add_(over_space(shift - mean * scale, a))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], a: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, int, int]]:
        folded = apply(_InstanceMoments, _fold(a, in_dims[0], info.batch_size))
        return tuple(t.unflatten(0, (info.batch_size, -1)) for t in folded), (0, 0, 0)


class _ScaleShift(Function):
    @staticmethod
    def forward(a: Tensor, mean: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return passes.scale_shift(a, mean, scale, shift)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Tensor], output: Tensor) -> None:
        a, mean, scale, shift = inputs
        ctx.save_for_backward(a, mean, scale)
        ctx.shift_shape = shift.shape
        ctx.rows = passes.row_count(mean, scale, shift)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
        a, mean, scale = ctx.saved_tensors
        grad_a = (grad * over_space(scale, a)).to(a.dtype) if ctx.needs_input_grad[0] else None
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
        return passes.row_sums(g, a, mean, rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, int], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs[:3], output[0])

    @staticmethod
    def backward(ctx: Any, grad_total: Tensor, grad_centred: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        g, a, mean, total = ctx.saved_tensors
        grad_g = scale_shift(a, mean, grad_centred, grad_total)
        grad_a = g * over_space(grad_centred, a)
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


def _fold(a: Tensor, dim: int | None, size: int) -> Tensor:
    """`a` with the vmapped axis merged into the examples; what is done per example needs no other rule for vmap."""
    a = a.expand(size, *a.shape) if dim is None else a.movedim(dim, 0)
    return a.flatten(0, 1)


def _fold_tables(a: Tensor, size: int, in_dims: tuple[int | None, ...], tables: tuple[Tensor, ...]) -> Iterator[Tensor]:
    for table, dim in zip(tables, in_dims, strict=True):
        stacked = table.expand(size, *table.shape) if dim is None else table.movedim(dim, 0)
        stacked = stacked.unsqueeze(1) if stacked.ndim == 2 else stacked
        yield stacked.expand(size, len(a) // size, a.shape[1]).flatten(0, 1)
