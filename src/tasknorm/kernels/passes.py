"""The passes over an activation on which the kernels are built, each for three layouts in memory.

Contiguous maps on CPUs go through torch's native batch norm kernels; maps with the channels last, through sums along
the channels; everything else, through plain operations, which the compiler fuses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

_CHUNK = 1 << 18  # number of activations whose centred copy fits into the cache


def moments(a: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance over space, each `(N, C)`."""
    if _is_native(a):
        return _native_moments(a)
    return _last_moments(a) if _is_channels_last(a) else plain_moments(a)


def scale_shift(a: Tensor, mean: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """`(a - mean) * scale + shift`, with tables that broadcast to `(N, C)`: a tensor that is no view of another.

    Autograd forbids to change a view that a custom function returned, and networks do, as by `ReLU(inplace=True)`.
    """
    if _is_channels_last(a):
        return _last_scale_shift(a, mean, scale, shift)
    if not _is_native(a):
        return plain_scale_shift(a, mean, scale, shift)
    view, (mean, scale, shift) = _channel_view(a, mean, scale, shift)
    # Batch norm in eval mode with variance 1 and no eps is this very function.
    result = torch.native_batch_norm(view, scale, shift, mean, torch.ones_like(mean), False, 0.0, 0.0)[0]
    unaliased: Tensor = torch.ops.aten._unsafe_view(result, a.shape)
    return unaliased


def row_sums(g: Tensor, a: Tensor, mean: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """`sum g` and `sum g (a - mean)` over space, and over examples too where `rows` is 1: each `(rows, C)`."""
    if _is_channels_last(a):
        return _last_row_sums(g, a, mean, rows)
    g = g.contiguous() if _is_native(a) else g
    if not (_is_native(g) and _is_native(a)):
        return _plain_row_sums(g, a, mean, rows)
    shape = (len(a) // rows, rows * a.shape[1], -1)
    mean = _flat(mean, rows, a.shape[1])
    # Batch norm's gradients of bias and weight, for a saved mean and an inverse deviation of 1, are these sums.
    _, centred, total = torch.ops.aten.native_batch_norm_backward(
        g.view(shape), a.view(shape), None, None, None, mean, torch.ones_like(mean), True, 0.0, [False, True, True]
    )
    return total.view(rows, -1), centred.view(rows, -1)


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


def row_count(*tables: Tensor) -> int:
    """N if some table differs between examples, 1 if all examples share every table."""
    return max(len(table) if table.ndim == 2 else 1 for table in tables)


def _channel_view(a: Tensor, *tables: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """`a` with the examples merged into the channels if a table differs between examples, and matching tables."""
    count = row_count(*tables)
    view = a.view(len(a) // count, count * a.shape[1], -1)
    return view, tuple(_flat(table, count, a.shape[1]) for table in tables)


def _flat(table: Tensor, rows: int, channels: int) -> Tensor:
    """A table as one contiguous vector, as the native kernels need it, even if it was broadcast."""
    return table.expand(rows, channels).reshape(-1).contiguous()


def _native_moments(a: Tensor) -> tuple[Tensor, Tensor]:
    rows = a.view(a.shape[0] * a.shape[1], -1)
    mean = rows.mean(1, keepdim=True)
    deviation = torch.empty_like(mean[:, 0])
    # A few rows at a time, whose deviations fit into the cache: as exact as two passes, without copying the activation.
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
    result = torch.empty_like(a)
    torch.addcmul(shift, _pixels_of(a), scale, out=_pixels_of(result))
    return result


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


def plain_moments(a: Tensor) -> tuple[Tensor, Tensor]:
    """`moments` for any layout."""
    space = tuple(range(2, a.ndim))
    if not torch.compiler.is_compiling():
        var, mean = torch.var_mean(at_least_float(a), space, correction=0)
        return mean, var
    # Compiled, the gradient of torch's variance computes the mean once more, and divides in every pixel. This one holds
    # the mean in memory. With m a constant of the mean's value, var(a) = mean((a - m)^2) - (mean(a) - m)^2, whose last
    # term is 0 and has the first derivative 0, but belongs to the second.
    a, part = at_least_float(a), 1 / math.prod(a.shape[2:])
    mean = a.sum(space) * part
    held = mean.detach()
    deviation = a - over_space(held, a)
    return mean, (deviation * deviation).sum(space) * part - (mean - held).square()


def plain_scale_shift(a: Tensor, mean: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """`scale_shift` for any layout: one multiplication and one addition for each number, as in batch norm."""
    scale, shift = over_space(scale, a), over_space(shift - mean * scale, a)
    return (at_least_float(a) * scale + shift).to(a.dtype)


def _plain_row_sums(g: Tensor, a: Tensor, mean: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    space = tuple(range(2, a.ndim))
    g = at_least_float(g)
    centred = (g * (at_least_float(a) - over_space(mean, a))).sum(space)
    total = g.sum(space)
    return (total, centred) if rows > 1 else (total.sum(0, keepdim=True), centred.sum(0, keepdim=True))


def at_least_float(a: Tensor) -> Tensor:
    """The same numbers in float32 or better."""
    return a.float() if a.dtype in (torch.float16, torch.bfloat16) else a


def over_space(table: Tensor, a: Tensor) -> Tensor:
    """A table of examples and channels with axes of size 1 for space, so that it broadcasts with activations."""
    return table[(..., *(None,) * (a.ndim - 2))]
