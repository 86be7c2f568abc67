"""A loss whose gradient is computed with it, so that what the gradient needs is freed before the next loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

State = dict[str, Tensor]
Loss = Callable[[State], tuple[Tensor, Tensor]]


def losses_now(loss: Loss, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """`loss(inputs)`, with the gradients of all inputs in place of its graph.

    A graph of many targets needs more memory than the gradients; of many tasks, one graph is there at a time.

    Args:
        loss: from these tensors to a loss, one number, and to a result without gradient.
        inputs: all tensors that the loss may have gradients for, by name.

    Returns:
        The loss, which can be differentiated once, and the result.
    """
    value, result = _LossNow.apply(loss, tuple(inputs), *inputs.values())
    return value, result


class _LossNow(Function):
    @staticmethod
    def forward(ctx: Any, loss: Loss, names: tuple[str, ...], *inputs: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            given = [tensor.detach().requires_grad_() for tensor in inputs]
            value, result = loss(dict(zip(names, given, strict=True)))
            gradients = torch.autograd.grad(value, given, allow_unused=True)
        ctx.save_for_backward(*gradients)
        result = result.detach()
        ctx.mark_non_differentiable(result)
        return value.detach(), result

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Any:
        scaled = (None if gradient is None else gradient * grad for gradient in ctx.saved_tensors)
        return None, None, *scaled
