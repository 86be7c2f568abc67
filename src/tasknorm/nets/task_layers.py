"""Layers that serve many tasks in one call, each task with weights of its own.

Hand them weights with one more axis in front, one entry a task, by `torch.func.functional_call`, and a batch of as many
tasks laid end to end: each task's rows then pass through its own weights. MAML (Finn et al., 2017) adapts weights so.
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
        # Tasks are groups of channels: one convolution serves them all.
        grouped = x.unflatten(0, (tasks, -1)).transpose(0, 1).flatten(1, 2)  # (n, tasks * in, H, W)
        bias = None if self.bias is None else self.bias.flatten()
        y = F.conv2d(
            grouped, self.weight.flatten(0, 1), bias, self.stride, self.padding, self.dilation, tasks * self.groups
        )
        return y.unflatten(1, (tasks, out)).transpose(0, 1).flatten(0, 1)


class TaskLinear(nn.Linear):
    """`nn.Linear` whose weight may be `(tasks, out, in)` and bias `(tasks, out)`."""

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.ndim == 2:
            return super().forward(x)
        y = torch.bmm(x.unflatten(0, (len(self.weight), -1)), self.weight.transpose(1, 2))
        return (y if self.bias is None else y + self.bias.unsqueeze(1)).flatten(0, 1)


TaskLayer = (TaskConv2d, TaskLinear)
