"""Layers that serve many tasks in one call, each task with weights of its own.

Hand them weights with one more axis in front, one entry a task, by `torch.func.functional_call`, and a batch that holds
the first example of every task, then the second, and so on: each task's rows then pass through its own weights. In this
order tasks are groups of channels without a copy. MAML (Finn et al., 2017) adapts weights so.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

TINY = 40  # pixels


class TaskConv2d(nn.Conv2d):
    """`nn.Conv2d` whose weight may be `(tasks, out, in, height, width)` and bias `(tasks, out)`."""

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.ndim == 4:
            return super().forward(x)
        tasks, out = self.weight.shape[:2]
        grouped = x.reshape(-1, tasks * x.shape[1], *x.shape[2:])
        bias = None if self.bias is None else self.bias.flatten()
        settings: Any = self.stride, self.padding, self.dilation, tasks * self.groups
        if _is_slow_backward(grouped, self):
            function: Any = _StridedConvolution
            y: Tensor = function.apply(grouped, self.weight.flatten(0, 1), bias, settings)
        else:
            y = F.conv2d(grouped, self.weight.flatten(0, 1), bias, *settings)
        return y.reshape(-1, out, *y.shape[2:])


class TaskLinear(nn.Linear):
    """`nn.Linear` whose weight may be `(tasks, out, in)` and bias `(tasks, out)`."""

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.ndim == 2:
            return super().forward(x)
        by_task = x.unflatten(0, (-1, len(self.weight))).transpose(0, 1)
        y = torch.bmm(by_task, self.weight.transpose(1, 2)).transpose(0, 1)
        return (y if self.bias is None else y + self.bias).flatten(0, 1)


TaskLayer = (TaskConv2d, TaskLinear)


class _StridedConvolution(Function):
    """A convolution whose gradient for its input is computed with the channels last, which is three times as fast."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, settings: Any) -> Tensor:
        return F.conv2d(x, weight, bias, *settings)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, bias, ctx.settings = inputs
        ctx.save_for_backward(x, weight)
        ctx.bias_sizes = None if bias is None else [len(bias)]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[:3])
        grad_x = None
        if wanted[0] and not torch.is_grad_enabled():  # second derivatives go by torch's own formula
            wanted[0] = False
            like = torch.empty_like(x, memory_format=torch.channels_last)  # its values are not needed
            last = [tensor.contiguous(memory_format=torch.channels_last) for tensor in (grad, like, weight)]
            grad_x = _channels_first(_backward(ctx, [True, False, False], *last)[0])
        rest = _backward(ctx, wanted, grad.contiguous(), x, weight)
        return (grad_x if grad_x is not None else rest[0]), rest[1], rest[2], None


def _backward(ctx: Any, wanted: list[bool], grad: Tensor, x: Tensor, weight: Tensor) -> Any:
    stride, padding, dilation, groups = ctx.settings
    return torch.ops.aten.convolution_backward(
        grad, x, weight, ctx.bias_sizes, stride, padding, dilation, False, [0, 0], groups, wanted
    )


def _channels_first(x: Tensor) -> Tensor:
    """`x.contiguous()`, example by example: torch has a fast way for the transpose of a matrix."""
    if torch.compiler.is_compiling():
        return x.contiguous()
    result = torch.empty_like(x, memory_format=torch.contiguous_format)
    for source, copy in zip(x, result, strict=True):
        copy.flatten(1).copy_(source.permute(1, 2, 0).flatten(0, 1).t())
    return result


def _is_slow_backward(x: Tensor, layer: nn.Conv2d) -> bool:
    """Whether torch's gradient for the input is slow: on CPUs, with a stride, unless the maps are tiny."""
    plain = x.device.type == "cpu" and x.requires_grad and not torch._C._are_functorch_transforms_active()
    return plain and layer.stride[0] > 1 and x.shape[-2] * x.shape[-1] > TINY and not isinstance(layer.padding, str)
