"""The convolution of many tasks' images and its gradients, as matrix products of a few tasks at a time.

Columns (see `task_convolution`) then fit into the cache and are not kept for the backward pass. For the compiler these
are opaque operators: it would turn their code into slow loops.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tasknorm.kernels.windows import Sides, Windows

CHUNK = 1 << 20  # largest size of the columns made at a time, in numbers


def as_matrix(weight: Tensor) -> Tensor:
    """Weights `(tasks, out, in, height, width)` as `(tasks, out, height width in)`: no copy with the channels last."""
    return weight.permute(0, 1, 3, 4, 2).flatten(2)


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None, kernel: Sides, stride: Sides, padding: Sides) -> Tensor:
    """Each task's images, of `(tasks n, in, h, w)`, convolved with its own weight, of `(tasks, out, in, *kernel)`."""
    windows = Windows(kernel, stride, padding)
    matrix = as_matrix(weight)
    if _is_one(weight) and (bias is None or _is_one(bias)) and not _is_small(matrix):
        return _last(F.conv2d(x, weight[0], None if bias is None else bias[0], stride, padding))
    y = _new_images(x, weight, windows)
    rows, by_task = _by_task(y, len(weight)), x.unflatten(0, (len(weight), -1))
    for part in _parts(rows, matrix):
        seen = _in_scratch(windows.columns(by_task[part].flatten(0, 1))).view(*rows[part].shape[:2], -1)
        if bias is None:
            torch.bmm(seen, matrix[part].mT, out=rows[part])
        else:
            torch.baddbmm(bias[part].unsqueeze(1), seen, matrix[part].mT, out=rows[part])
    return y


def gradients(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    kernel: Sides,
    stride: Sides,
    padding: Sides,
    wants_x: bool,
    is_tied: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of images, weight and bias; those of weight and bias are summed over tasks if `is_tied`.

    The gradient of the images is empty unless `wants_x`.
    """
    windows = Windows(kernel, stride, padding)
    grad_x = _grad_images(grad, x, weight, windows) if wants_x else x.new_empty(0)
    grad_bias = _by_task(grad, len(weight)).sum((0, 1) if is_tied else 1)
    return grad_x, _grad_weight(grad, x, weight, windows, is_tied), grad_bias


def _grad_images(grad: Tensor, x: Tensor, weight: Tensor, windows: Windows) -> Tensor:
    if _is_one(weight):
        return _last(_torchs_backward(grad, x, weight, windows, (True, False, False))[0])
    matrix, rows = as_matrix(weight), _by_task(grad, len(weight))
    room = windows.room(x)
    by_task = room.unflatten(0, (len(weight), -1))
    for part in _parts(rows, matrix):
        to = by_task[part].flatten(0, 1)
        grad_columns = _scratch((*rows[part].shape[:2], matrix.shape[2]), grad.dtype)
        torch.bmm(rows[part], matrix[part], out=grad_columns)
        windows.images(grad_columns.view(len(to), *grad.shape[2:], *windows.kernel, -1), to)
    return windows.inside(room)


def _grad_weight(grad: Tensor, x: Tensor, weight: Tensor, windows: Windows, is_tied: bool) -> Tensor:
    if is_tied:
        return _last(_torchs_backward(grad, x, weight, windows, (False, True, False))[1])
    matrix, rows = as_matrix(weight), _by_task(grad, len(weight))
    by_task = x.unflatten(0, (len(weight), -1))
    grad_matrix = _new_grad_matrix(matrix)
    for part in _parts(rows, matrix):
        seen = _in_scratch(windows.columns(by_task[part].flatten(0, 1))).view(*rows[part].shape[:2], -1)
        if _is_small(matrix):
            torch.bmm(seen.mT, rows[part], out=grad_matrix[part].mT)
        else:
            torch.bmm(rows[part].mT, seen, out=grad_matrix[part])
    return _as_weight(grad_matrix, weight)


def _torchs_backward(grad: Tensor, x: Tensor, weight: Tensor, windows: Windows, mask: tuple[bool, ...]) -> Any:
    """Gradients of the images or of the weight, with all tasks' images as one batch.

    For the gradient with respect to the weight, the value of the weight does not matter.
    """
    _, stride, padding = windows
    return torch.ops.aten.convolution_backward(
        grad, x, weight[0], None, stride, padding, (1, 1), False, (0, 0), 1, mask
    )


def _is_one(weights: Tensor) -> bool:
    """Whether all tasks share one weight: their images are then one batch for torch's own convolution."""
    return weights.stride(0) == 0


def _is_small(matrix: Tensor) -> bool:
    """Whether windows have fewer numbers than there are filters: products are faster with the longer side last."""
    return matrix.shape[2] < matrix.shape[1]


def _last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


_kept = threading.local()


def _scratch(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Contiguous memory that is reused from call to call: allocating it takes longer than the work done in it."""
    memory: dict[Any, Tensor] = _kept.__dict__
    key, size = str(dtype), math.prod(shape)
    if key not in memory or memory[key].numel() < size:
        with torch.inference_mode(False):
            memory[key] = torch.empty(max(CHUNK, size), dtype=dtype)
    return memory[key][:size].view(shape)


def _in_scratch(x: Tensor) -> Tensor:
    return _scratch(x.shape, x.dtype).copy_(x)


def _by_task(images: Tensor, tasks: int) -> Tensor:
    """`(tasks n, channels, height, width)` as `(tasks, n height width, channels)`."""
    return images.permute(0, 2, 3, 1).reshape(tasks, -1, images.shape[1])


def _new_images(x: Tensor, weight: Tensor, windows: Windows) -> Tensor:
    return x.new_empty(len(x), *windows.output_size(x), weight.shape[1]).permute(0, 3, 1, 2)


def _new_grad_matrix(matrix: Tensor) -> Tensor:
    return matrix.new_empty(matrix.mT.shape).mT if _is_small(matrix) else matrix.new_empty(matrix.shape)


def _as_weight(matrix: Tensor, weight: Tensor) -> Tensor:
    """The reverse of `as_matrix`."""
    tasks, out, channels, *kernel = weight.shape
    return matrix.view(tasks, out, *kernel, channels).permute(0, 1, 4, 2, 3)


def _parts(rows: Tensor, matrix: Tensor) -> Iterator[slice]:
    """Slices of the tasks, each small enough for its columns and their products to fit into the cache."""
    parts = -(-len(rows) * rows.shape[1] * max(matrix.shape[1:]) // CHUNK)
    step = -(-len(rows) // parts)
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


_LIBRARY = torch.library.Library("tasknorm", "FRAGMENT")
_WINDOWS = "int[] kernel, int[] stride, int[] padding"
_LIBRARY.define(f"convolution(Tensor x, Tensor weight, Tensor? bias, {_WINDOWS}) -> Tensor")
_LIBRARY.define(
    f"convolution_gradients(Tensor grad, Tensor x, Tensor weight, {_WINDOWS}, bool wants_x, bool is_tied) "
    "-> (Tensor, Tensor, Tensor)"
)
_LIBRARY.impl("convolution", convolved, "CPU")
_LIBRARY.impl("convolution_gradients", gradients, "CPU")


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
    matrix = as_matrix(weight)
    one_weight = torch.empty_like(weight[0], memory_format=torch.channels_last)
    grad_x = _last(torch.empty_like(x)) if _is_one(weight) else windows.inside(windows.room(x))
    return (
        grad_x if wants_x else x.new_empty(0),
        one_weight if is_tied else _as_weight(_new_grad_matrix(matrix), weight),
        grad.new_empty(matrix.shape[1:2] if is_tied else matrix.shape[:2]),
    )


torch.library.register_fake("tasknorm::convolution", _fake_forward, lib=_LIBRARY)
torch.library.register_fake("tasknorm::convolution_gradients", _fake_backward, lib=_LIBRARY)
