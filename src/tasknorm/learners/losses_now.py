"""Losses whose gradients are computed with them, so that what these need is freed before the next losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

Compute = Callable[[], tuple[Tensor, Tensor]]


def losses_now(
    compute: Compute, inputs: Sequence[Tensor], leaves: Sequence[Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """The losses that `compute` returns, with the gradients of their sum in place of their graph.

    Of many such calls, one graph is there at a time. If a backward pass does not weigh all losses alike, `compute` is
    called again in it; it must then return the same.

    Args:
        compute: returns losses `(tasks,)`, and a result that needs no gradient.
        inputs: all tensors that the losses may have gradients for.
        leaves: the tensors that `compute` uses in their place; the inputs themselves if they depend on nothing.

    Returns:
        The losses, which can be differentiated once, and the result.
    """
    losses, result = _LossesNow.apply(compute, leaves or inputs, *inputs)  # type: ignore[no-untyped-call]
    return losses, result


class _LossesNow(Function):
    @staticmethod
    def forward(ctx: Any, compute: Compute, leaves: Sequence[Tensor], *inputs: Tensor) -> tuple[Tensor, Tensor]:
        losses, result, gradients = _computed(compute, leaves, None)
        if len(losses) > 1:
            ctx.again = compute, leaves
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(result)
        return losses, result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Any:
        if bool((grad == grad[0]).all()):
            gradients: Sequence[Tensor | None] = [None if g is None else g * grad[0] for g in ctx.saved_tensors]
        else:
            compute, leaves = ctx.again
            gradients = _computed(compute, leaves, grad)[2]
        return None, None, *gradients


def _computed(
    compute: Compute, inputs: Sequence[Tensor], weights: Tensor | None
) -> tuple[Tensor, Tensor, Sequence[Tensor | None]]:
    """Losses and result without their graph, and the gradients of the sum of the losses, weighted if that is asked."""
    with torch.enable_grad():
        losses, result = compute()
        gradients = torch.autograd.grad(
            losses, inputs, torch.ones_like(losses) if weights is None else weights, allow_unused=True
        )
    return losses.detach(), result.detach(), gradients
