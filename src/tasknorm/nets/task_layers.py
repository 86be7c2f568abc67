"""Layers that serve many tasks in one call, each task with weights of its own.

Hand them weights with one more axis in front, one entry a task, by `torch.func.functional_call`, and a batch that holds
the first example of every task, then the second, and so on: each task's rows then pass through its own weights. In this
order tasks are groups of channels without a copy. MAML (Finn et al., 2017) adapts weights so.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class TaskConv2d(nn.Conv2d):
    """`nn.Conv2d` whose weight may be `(tasks, out, in, height, width)` and bias `(tasks, out)`."""

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.ndim == 4:
            return super().forward(x)
        tasks, out = self.weight.shape[:2]
        bias = None if self.bias is None else self.bias.flatten()
        y = F.conv2d(
            x.reshape(-1, tasks * x.shape[1], *x.shape[2:]),
            self.weight.flatten(0, 1),
            bias,
            self.stride,
            self.padding,
            self.dilation,
            tasks * self.groups,
        )
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
