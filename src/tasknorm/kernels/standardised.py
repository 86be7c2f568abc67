"""Sets normalised with their own moments, as batch norm does, with closed forms of the first and second derivative.

With mean() over the numbers of a set and channel, r = 1 / sqrt(var + eps) and z = (a - mean(a)) r:

    y    = z + bias
    da   = r (g - mean(g) - z mean(g z))                                                      for g = dy
    d g  = r (h - mean(h) - z mean(h z))                                                      for h = d(da)
    d a  = -r^2 (z (mean(g h) - mean(g) mean(h) - 3 mean(g z) mean(h z))
                 + mean(g z) (h - mean(h)) + mean(h z) (g - mean(g)))

Everything that `instance_moments` and `scale_shift` would compute for such a norm, in fewer passes: second-order MAML
spends much of its time here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from tasknorm.kernels.tracing import apply, is_traced
from tasknorm.moments import Moments

CHUNK = 1 << 18  # activations whose copies fit into the cache


def can_standardise(a: Tensor, sets: int) -> bool:
    """Whether `standardised` takes these activations: maps on CPUs with the channels last, of float32 or float64."""
    return (
        a.ndim == 4
        and len(a) % sets == 0
        and a.device.type == "cpu"
        and a.dtype in (torch.float32, torch.float64)
        and a.is_contiguous(memory_format=torch.channels_last)
        and not is_traced()
    )


def standardised(a: Tensor, bias: Tensor | None, sets: int, eps: float) -> tuple[Tensor, Moments]:
    """Each set's activations, normalised with its own mean and biased variance, plus the bias.

    Args:
        a: activations for which `can_standardise` is true, `(sets n, C, height, width)`, one set after the other.
        bias: `(C,)`, or None.
        sets: the number of sets.
        eps: added to the variance.

    Returns:
        A tensor like `a`; and the moments of each set, `(sets, 1, C)`, without gradient.
    """
    y, mean, var, _ = apply(_Standardised, a, bias, sets, eps)
    return y, Moments(mean, var)


class _Standardised(Function):
    @staticmethod
    def forward(a: Tensor, bias: Tensor | None, sets: int, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows = _rows(a, sets)
        y = torch.empty_like(rows)
        mean, var, r = (rows.new_empty(sets, 1, rows.shape[2]) for _ in range(3))
        for part in _parts(rows):
            torch.mean(rows[part], 1, keepdim=True, out=mean[part])
            deviation = torch.sub(rows[part], mean[part], out=y[part])
            torch.mean(deviation.mul_(deviation), 1, keepdim=True, out=var[part])
            torch.rsqrt(var[part] + eps, out=r[part])
            shift = mean[part] * -r[part] if bias is None else torch.addcmul(bias, mean[part], r[part], value=-1)
            torch.addcmul(shift, rows[part], r[part], out=y[part])
        return _like(y, a), mean, var, r

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        a, bias, ctx.sets, ctx.eps = inputs
        ctx.has_bias = bias is not None
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, output[1], output[3])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        if grad is None:
            return None, None, None, None
        a, mean, r = ctx.saved_tensors
        grad_a, total, *_ = apply(_Gradient, grad, a, mean, r, ctx.eps)
        return grad_a, total.sum((0, 1)) if ctx.has_bias else None, None, None


class _Gradient(Function):
    """The gradient of the activations; for each set the sum of `grad` and its mean product with z, `(sets, 1, C)`."""

    @staticmethod
    def forward(grad: Tensor, a: Tensor, mean: Tensor, r: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        g, rows = _rows(grad, len(mean)), _rows(a, len(mean))
        result, total, along, shift = torch.empty_like(rows), torch.empty_like(mean), torch.empty_like(mean), -mean * r
        for part in _parts(rows):
            z = torch.addcmul(shift[part], rows[part], r[part])
            torch.sum(g[part], 1, keepdim=True, out=total[part])
            torch.mean(torch.mul(g[part], z, out=result[part]), 1, keepdim=True, out=along[part])
            constant = total[part] * r[part] / -g.shape[1]
            torch.addcmul(constant, z, -along[part] * r[part], out=result[part]).addcmul_(g[part], r[part])
        return _like(result, a), total, along

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.eps = inputs
        _, total, along = output
        ctx.mark_non_differentiable(along)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, total, along)

    @staticmethod
    def backward(
        ctx: Any, grad_a: Tensor | None, grad_total: Tensor | None, *_: None
    ) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        grad, a, mean, r, total, g_z = ctx.saved_tensors
        if grad_a is None:
            by_total = None if grad_total is None else _like(grad_total.expand_as(_rows(a, len(mean))), a)
            return by_total, None, None, None, None
        h, g, rows = (_rows(images, len(mean)) for images in (grad_a, grad, a))
        higher = torch.is_grad_enabled()
        if higher:  # the moments, as functions of the activations, for derivatives of higher order
            mean, _var, r = _moments(rows, ctx.eps)
        z = torch.addcmul(-mean * r, rows, r)
        mean_g, mean_h = total / g.shape[1], h.mean(1, keepdim=True)
        if higher:
            mean_g, g_z = g.mean(1, keepdim=True), _mean_product(g, z)
        h_z, g_h = _mean_product(h, z), _mean_product(g, h)
        by_grad = _projected(h, z, r, mean_h if grad_total is None else mean_h - grad_total / r, h_z)
        along = g_h - mean_g * mean_h - 3 * g_z * h_z
        square = -r * r
        by_a = torch.addcmul(square * -(g_z * mean_h + h_z * mean_g), z, square * along)
        by_a = torch.addcmul(torch.addcmul(by_a, h, square * g_z), g, square * h_z)
        return _like(by_grad, a), _like(by_a, a), None, None, None


def _parts(rows: Tensor) -> Iterator[slice]:
    """Slices of the sets, each small enough for its copies to stay in the cache."""
    step = max(1, CHUNK // rows[0].numel())
    for start in range(0, len(rows), step):
        yield slice(start, start + step)


def _moments(rows: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, biased variance and inverse deviation of each set, each `(sets, 1, C)`."""
    mean = rows.mean(1, keepdim=True)
    deviation = rows - mean
    var = (deviation * deviation).mean(1, keepdim=True)
    return mean, var, torch.rsqrt(var + eps)


def _projected(g: Tensor, z: Tensor, r: Tensor, mean: Tensor, along: Tensor) -> Tensor:
    """`r (g - mean - z along)`."""
    return torch.addcmul(torch.addcmul(-mean * r, z, -along * r), g, r)


def _mean_product(g: Tensor, h: Tensor) -> Tensor:
    return (g * h).mean(1, keepdim=True)


def _rows(images: Tensor, sets: int) -> Tensor:
    """`(sets n, C, height, width)` as `(sets, n height width, C)`: a view if the channels are last in memory."""
    return images.permute(0, 2, 3, 1).reshape(sets, -1, images.shape[1])


def _like(rows: Tensor, images: Tensor) -> Tensor:
    """The reverse of `_rows`."""
    return rows.view(len(images), *images.shape[2:], -1).permute(0, 3, 1, 2)
