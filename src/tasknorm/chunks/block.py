"""What chunks leave for the backward pass, side by side in one block of memory, and their gradients in another.

In blocks of its own, each value that stays between others that come and go would leave a gap that nothing fits into: a
process then holds twice what it uses.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from tasknorm.kernels import instance_moments
from tasknorm.moments import Moments


class Block:
    """The values of all chunks under one name, to be added in order, then used as a whole or chunk by chunk.

    Args:
        like: the first chunk's value, by whose layout the others are placed; one row for each example.
        examples: how many the chunks hold together.
    """

    def __init__(self, like: Tensor, examples: int) -> None:
        shape = (examples, *like.shape[1:])
        dense = torch.ops.aten.is_non_overlapping_and_dense(like) and like.stride(0) == like[0].numel()
        options: Any = {"dtype": like.dtype, "device": like.device}
        self._memory = torch.empty_strided(shape, like.stride(), **options) if dense else torch.empty(shape, **options)
        self._chunks: list[Tensor] = []
        self._starts: list[int] = [0]
        self._whole: Tensor | None = None
        self._gradient = _Gradient()

    def add(self, value: Tensor) -> None:
        """Place the value of the next chunk."""
        start = self._starts[-1]
        place = _rows(self._memory, start, len(value))
        self._chunks.append(_Placed.apply(value, place))  # type: ignore[no-untyped-call]
        self._starts.append(start + len(value))

    def whole(self) -> Tensor:
        """The values of all chunks, one after the other."""
        whole: Tensor = _Whole.apply(self._memory, *self._chunks)  # type: ignore[no-untyped-call]
        self._chunks.clear()
        return whole

    def moments(self) -> Moments:
        """Instance moments of the values, which are to be read before a chunk's value is used."""
        whole = self.whole()
        read, moments = instance_moments(whole.unsqueeze(-1) if whole.ndim == 2 else whole)
        self._whole = read.view_as(whole)
        return moments

    def __getitem__(self, chunk: int) -> Tensor:
        if self._chunks:
            self._whole = self.whole()
        if not self._gradient.opened:
            assert self._whole is not None
            self._whole = _Opened.apply(self._whole, self._gradient)  # type: ignore[no-untyped-call]
        start, end = self._starts[chunk : chunk + 2]
        taken: Tensor = _Taken.apply(self._whole, start, end - start, self._gradient)  # type: ignore[no-untyped-call]
        return taken


def _rows(memory: Tensor, start: int, count: int) -> Tensor:
    """Some rows. A view would share the count of changes by which autograd tells whether a value was overwritten."""
    place = torch.empty(0, dtype=memory.dtype, device=memory.device)
    offset = memory.storage_offset() + start * memory.stride(0)
    return place.set_(memory.untyped_storage(), offset, (count, *memory.shape[1:]), memory.stride())


class _Gradient:
    """The gradient of a block's values, to which each use of a chunk adds its rows: one tensor for a backward pass."""

    def __init__(self) -> None:
        self.opened = False
        self._pass = -1
        self._sum: Tensor | None = None
        self._written: dict[int, int] = {}

    def add(self, grad: Tensor, start: int, examples: int) -> Tensor | None:
        """Add the gradient of some rows; the whole gradient if these are the first, as autograd adds what it is given.

        Args:
            grad: of the rows.
            start: the first row.
            examples: how many rows there are in all.
        """
        first = self._sum is None or self._pass != torch._C._current_graph_task_id()
        if first:
            self._pass, self._written = torch._C._current_graph_task_id(), {}
            dense = torch.ops.aten.is_non_overlapping_and_dense(grad) and grad.stride(0) == grad[0].numel()
            shape, options = (examples, *grad.shape[1:]), {"dtype": grad.dtype, "device": grad.device}
            self._sum = torch.empty_strided(shape, grad.stride(), **options) if dense else grad.new_empty(shape)  # type: ignore[arg-type]
        assert self._sum is not None
        rows = self._sum[start : start + len(grad)]
        if start in self._written:
            rows.add_(grad)
        else:
            rows.copy_(grad)
            self._written[start] = len(grad)
        return self._sum if first else None

    def close(self) -> None:
        """Set the rows of chunks that had no use to 0, and forget the gradient: by now it is somewhere else."""
        if self._sum is not None:
            end = 0
            for start in (*sorted(self._written), len(self._sum)):
                self._sum[end:start].zero_()
                end = start + self._written.get(start, 0)
        self._sum = None


class _Placed(Function):
    """The same numbers elsewhere in memory."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, place: Tensor) -> Tensor:
        return place.copy_(value).view_as(place)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


class _Whole(Function):
    """Chunks that lie one after the other, as one tensor."""

    @staticmethod
    def forward(ctx: Any, memory: Tensor, *chunks: Tensor) -> Tensor:
        ctx.sizes = [len(chunk) for chunk in chunks]
        return memory.view_as(memory)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *grads[0].split(ctx.sizes)


class _Opened(Function):
    """The same tensor: where the gradients of its chunks have come together."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, gradient: _Gradient) -> Tensor:
        gradient.opened = True
        ctx.gradient = gradient
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        ctx.gradient.close()
        return grads[0], None


class _Taken(Function):
    """The rows of one chunk."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, start: int, count: int, gradient: _Gradient) -> Tensor:
        ctx.gradient, ctx.start, ctx.examples = gradient, start, len(whole)
        return _rows(whole, start, count)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None, None]:
        (grad,) = grads
        if torch.is_grad_enabled():  # it will be differentiated again
            after = ctx.examples - ctx.start - len(grad)
            zeros = [grad.new_zeros(count, *grad.shape[1:]) for count in (ctx.start, after)]
            return torch.cat([zeros[0], grad, zeros[1]]), None, None, None
        return ctx.gradient.add(grad, ctx.start, ctx.examples), None, None, None
