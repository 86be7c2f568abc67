"""The convolution of many tasks' images and its gradients, as matrix products of a few tasks at a time.

Columns (see `task_convolution`) then fit into the cache and are not kept for the backward pass. Images that share one
weight go through torch's own convolution, unless their columns are few. For the compiler these are opaque operators: it
would turn their code into slow loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tasknorm.kernels.scratch import Columns, columns_of
from tasknorm.kernels.windows import Sides, Windows

CHUNK = 1 << 19  # largest size of the columns made at a time, in numbers
FEW = 1 << 20  # largest size of the columns of all images with which torch's own convolution is slower


def as_matrix(weight: Tensor) -> Tensor:
    """Weights `(tasks, out, in, height, width)` as `(tasks, out, height width in)`: no copy with the channels last."""
    return weight.permute(0, 1, 3, 4, 2).flatten(2)


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None, kernel: Sides, stride: Sides, padding: Sides) -> Tensor:
    """Each task's images, of `(tasks n, in, h, w)`, convolved with its own weight, of `(tasks, out, in, *kernel)`."""
    windows = Windows(kernel, stride, padding)
    matrix = as_matrix(weight)
    one = _is_one(weight) and (bias is None or _is_one(bias))
    if one and not _has_few_columns(x, matrix, windows):
        return _last(F.conv2d(x, weight[0], None if bias is None else bias[0], stride, padding))
    y = _new_images(x, weight, windows)
    rows = _by_task(y, len(weight))
    for tasks, images, columns in _parts(rows, matrix, x, windows):
        seen, filters = _seen(columns, x[images], rows), matrix[tasks].mT
        if bias is None:
            torch.bmm(seen, filters, out=rows[tasks])
        else:
            torch.baddbmm(bias[tasks].unsqueeze(1), seen, filters, out=rows[tasks])
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
    few = not wants_x and _has_few_columns(x, as_matrix(weight), windows)
    if len(weight) == 1 and not is_tied and not few:
        found = _torchs_backward(grad, x, weight[0], windows, (wants_x, True, True))
        grad_x = _last(found[0]) if wants_x else x.new_empty(0)
        return grad_x, _last(found[1]).unsqueeze(0), found[2].unsqueeze(0)
    grad_x = grad_images(grad, x, weight, windows) if wants_x else x.new_empty(0)
    if is_tied:
        _, by_weight, by_bias = _torchs_backward(grad, x, weight[0], windows, (False, True, True))
        return grad_x, _last(by_weight), by_bias
    return grad_x, grad_weight(grad, x, weight, windows), grad_bias(grad, weight)


def grad_images(grad: Tensor, x: Tensor, weight: Tensor, windows: Windows) -> Tensor:
    """The gradient of the images, like `x`."""
    if _is_one(weight):
        return _last(_torchs_backward(grad, x, weight[0], windows, (True, False, False))[0])
    grad_x = _new_like(x)
    matrix, rows = as_matrix(weight), _by_task(grad, len(weight))
    for tasks, images, columns in _parts(rows, matrix, x, windows):
        _write(columns, rows[tasks], matrix[tasks], grad_x[images])
    return grad_x


def grad_weight(grad: Tensor, x: Tensor, weight: Tensor, windows: Windows) -> Tensor:
    """The gradient of each task's weight, `(tasks, out, in, *kernel)`; the value of the weight does not matter."""
    if len(weight) == 1 and not _has_few_columns(x, as_matrix(weight), windows):
        return _last(_torchs_backward(grad, x, weight[0], windows, (False, True, False))[1]).unsqueeze(0)
    matrix, rows = as_matrix(weight), _by_task(grad, len(weight))
    grad_matrix = _new_grad_matrix(matrix)
    for tasks, images, columns in _parts(rows, matrix, x, windows):
        _correlate(rows[tasks], _seen(columns, x[images], rows), grad_matrix[tasks])
    return _as_weight(grad_matrix, weight)


def grad_bias(grad: Tensor, weight: Tensor) -> Tensor:
    """The gradient of each task's bias, `(tasks, out)`."""
    return _by_task(grad, len(weight)).sum(1)


def second_gradients(
    by: tuple[Tensor | None, Tensor, Tensor], grad: Tensor, x: Tensor, weight: Tensor, windows: Windows
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The derivatives of `gradients`.

    Args:
        by: gradients of the three results of `gradients`; the first is None if there was no gradient of the images.
        grad, x, weight, windows: what `gradients` was given.

    Returns:
        The gradients of `grad`, `x` and `weight`; the latter two are None if there was no gradient of the images.
    """
    by_images, by_weight, by_bias = by
    if by_images is None:
        return convolved(x, by_weight, by_bias, *windows), None, None
    if len(weight) == 1:
        total = convolved(x, by_weight, by_bias, *windows).add_(convolved(by_images, weight, None, *windows))
        return total, grad_images(grad, x, by_weight, windows), grad_weight(grad, by_images, weight, windows)
    matrix, by_matrix = as_matrix(weight), as_matrix(by_weight)
    total, grad_x, grad_matrix = _new_images(x, weight, windows), _new_like(x), _new_grad_matrix(matrix)
    rows, to = _by_task(grad, len(weight)), _by_task(total, len(weight))
    for tasks, images, columns in _parts(rows, matrix, x, windows):
        seen = _seen(columns, by_images[images], rows)
        _correlate(rows[tasks], seen, grad_matrix[tasks])
        torch.baddbmm(by_bias[tasks].unsqueeze(1), seen, matrix[tasks].mT, out=to[tasks])
        to[tasks].baddbmm_(_seen(columns, x[images], rows), by_matrix[tasks].mT)
        _write(columns, rows[tasks], by_matrix[tasks], grad_x[images])
    return total, grad_x, _as_weight(grad_matrix, weight)


def _seen(columns: Columns, images: Tensor, rows: Tensor) -> Tensor:
    """The columns of some tasks' images, `(tasks, rows of a task, height width in)`."""
    return columns.read(images).view(-1, rows.shape[1], columns.matrix.shape[1])


def _write(columns: Columns, rows: Tensor, matrix: Tensor, images: Tensor) -> None:
    """Set the images to the gradient that the convolution's gradient `rows` has with respect to them."""
    torch.bmm(rows, matrix, out=columns.matrix.view(*rows.shape[:2], -1))
    columns.write(images)


def _correlate(rows: Tensor, seen: Tensor, grad_matrix: Tensor) -> None:
    """Set the matrix to the gradient that the convolution's gradient `rows` has with respect to the weight."""
    if _is_small(grad_matrix):
        torch.bmm(seen.mT, rows, out=grad_matrix.mT)
    else:
        torch.bmm(rows.mT, seen, out=grad_matrix)


def _torchs_backward(grad: Tensor, x: Tensor, weight: Tensor, windows: Windows, mask: tuple[bool, ...]) -> Any:
    """Those gradients of images, weight `(out, in, *kernel)` and bias that the mask asks for; images are one batch."""
    _, stride, padding = windows
    bias = (len(weight),) if mask[2] else None
    return torch.ops.aten.convolution_backward(grad, x, weight, bias, stride, padding, (1, 1), False, (0, 0), 1, mask)


def _is_one(weights: Tensor) -> bool:
    """Whether all tasks share one weight: their images are then one batch for torch's own convolution."""
    return weights.stride(0) == 0 or len(weights) == 1


def few_columns(x: Tensor, tasks: int, kernel: Sides, stride: Sides, padding: Sides) -> Tensor:
    """The columns of each task's images, `(tasks, in height width, pixels)`.

    With the pixels last they are copied in longer runs than by `Windows` if the images have a channel or two.
    """
    (top, left), (height, width) = padding, Windows(kernel, stride, padding).output_size(x)
    padded = F.pad(x, (left, left, top, top)).unflatten(0, (tasks, -1))
    found = x.new_empty(tasks, x.shape[1] * kernel[0] * kernel[1], padded.shape[1], height, width)
    places = product(range(x.shape[1]), range(kernel[0]), range(kernel[1]))
    for number, (channel, row, column) in enumerate(places):
        seen = padded[:, :, channel, row :: stride[0], column :: stride[1]]
        found[:, number] = seen[..., :height, :width]
    return found.flatten(2)


def _has_few_columns(x: Tensor, matrix: Tensor, windows: Windows) -> bool:
    """Whether products of columns are faster than torch's convolution of all images by one weight."""
    height, width = windows.output_size(x)
    return _is_small(matrix) and (len(matrix) > 1 or len(x) * height * width * matrix.shape[2] <= FEW)


def keeps_columns(x: Tensor, weight: Tensor, windows: Windows) -> bool:
    """Whether to keep columns for the backward pass: if they are few, and a window has fewer numbers than filters."""
    height, width = windows.output_size(x)
    return weight[0, 0].numel() < weight.shape[1] and len(x) * height * width * weight[0, 0].numel() <= FEW


def _is_small(matrix: Tensor) -> bool:
    """Whether windows have fewer numbers than there are filters: products are faster with the longer side last."""
    return matrix.shape[2] < matrix.shape[1]


def _last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


def _by_task(images: Tensor, tasks: int) -> Tensor:
    """`(tasks n, channels, height, width)` as `(tasks, n height width, channels)`."""
    return images.permute(0, 2, 3, 1).reshape(tasks, -1, images.shape[1])


def _new_images(x: Tensor, weight: Tensor, windows: Windows) -> Tensor:
    return x.new_empty(len(x), *windows.output_size(x), weight.shape[1]).permute(0, 3, 1, 2)


def _new_like(x: Tensor) -> Tensor:
    count, channels, *sides = x.shape
    return x.new_empty(count, *sides, channels).permute(0, 3, 1, 2)


def _new_grad_matrix(matrix: Tensor) -> Tensor:
    return matrix.new_empty(matrix.mT.shape).mT if _is_small(matrix) else matrix.new_empty(matrix.shape)


def _as_weight(matrix: Tensor, weight: Tensor) -> Tensor:
    """The reverse of `as_matrix`."""
    tasks, out, channels, *kernel = weight.shape
    return matrix.view(tasks, out, *kernel, channels).permute(0, 1, 4, 2, 3)


def _parts(rows: Tensor, matrix: Tensor, x: Tensor, windows: Windows) -> Iterator[tuple[Any, Any, Columns]]:
    """Slices of the tasks, and of their images, each small enough for its columns and products to fit into the cache.

    If one slice is enough, it is `...`, which takes torch less time than a slice.
    """
    tasks, images, (channels, *sides) = len(rows), len(x) // len(rows), x.shape[1:]
    parts = -(-tasks * rows.shape[1] * max(matrix.shape[1:]) // CHUNK)
    step, threads = -(-tasks // parts), torch.get_num_threads()
    if step > threads:  # of a product of several tasks, each thread computes whole ones: let all have as many
        step = -(-step // threads) * threads
    for start in range(0, tasks, step):
        end = min(start + step, tasks)
        columns = columns_of(((end - start) * images, channels, *sides), windows, x.dtype)
        whole = parts == 1
        yield ... if whole else slice(start, end), ... if whole else slice(start * images, end * images), columns


_LIBRARY = torch.library.Library("tasknorm", "FRAGMENT")
_WINDOWS = "int[] kernel, int[] stride, int[] padding"
_LIBRARY.define(f"convolution(Tensor x, Tensor weight, Tensor? bias, {_WINDOWS}) -> Tensor")
_LIBRARY.define(
    f"gradients_of_convolution(Tensor grad, Tensor x, Tensor weight, {_WINDOWS}, bool wants_x, bool is_tied) "
    "-> (Tensor, Tensor, Tensor)"
)
_LIBRARY.define(f"few_columns(Tensor x, int tasks, {_WINDOWS}) -> Tensor")
_LIBRARY.impl("few_columns", few_columns, "CPU")
_LIBRARY.impl("convolution", convolved, "CPU")
_LIBRARY.impl("gradients_of_convolution", gradients, "CPU")


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
    matrix = as_matrix(weight)
    one_weight = torch.empty_like(weight[0], memory_format=torch.channels_last)
    return (
        _new_like(x) if wants_x else x.new_empty(0),
        one_weight if is_tied else _as_weight(_new_grad_matrix(matrix), weight),
        grad.new_empty(matrix.shape[1:2] if is_tied else matrix.shape[:2]),
    )


def _fake_few_columns(x: Tensor, tasks: int, kernel: Sides, stride: Sides, padding: Sides) -> Tensor:
    height, width = Windows(kernel, stride, padding).output_size(x)
    return x.new_empty(tasks, x.shape[1] * kernel[0] * kernel[1], len(x) // tasks * height * width)


torch.library.register_fake("tasknorm::few_columns", _fake_few_columns, lib=_LIBRARY)
torch.library.register_fake("tasknorm::convolution", _fake_forward, lib=_LIBRARY)
torch.library.register_fake("tasknorm::gradients_of_convolution", _fake_backward, lib=_LIBRARY)
