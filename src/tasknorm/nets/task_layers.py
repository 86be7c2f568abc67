"""Layers that serve many tasks in one call, each task with weights of its own.

Hand them weights with one more axis in front, one entry a task, by `torch.func.functional_call`, and a batch that holds
the tasks one after the other, all of one size: each task's rows then pass through its own weights. MAML (Finn et al.,
2017) adapts weights so.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tasknorm.nets.task_convolution import task_convolution
from tasknorm.nets.windows import Windows

LARGE = 1 << 21  # numbers in the windows of one task, above which making them costs more than it gains


class TaskConv2d(nn.Conv2d):
    """`nn.Conv2d` whose weight may be `(tasks, out, in, height, width)` and bias `(tasks, out)`.

    Small images are convolved as matrix products (see `task_convolution`), large ones with tasks as groups of channels.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.ndim == 4:
            return super().forward(x)
        windows = self._windows(x)
        if windows is not None:
            return task_convolution(x, self.weight, self.bias, windows)
        tasks, out = self.weight.shape[:2]
        grouped = x.unflatten(0, (tasks, -1)).transpose(0, 1).flatten(1, 2)
        bias = None if self.bias is None else self.bias.flatten()
        y = nn.functional.conv2d(
            grouped, self.weight.flatten(0, 1), bias, self.stride, self.padding, self.dilation, tasks * self.groups
        )
        return y.view(len(y), tasks, out, *y.shape[2:]).transpose(0, 1).flatten(0, 1)

    def _windows(self, x: Tensor) -> Windows | None:
        """What the kernel sees of the images, if matrix products are the faster way."""
        plain = self.groups == 1 and self.dilation == (1, 1) and not isinstance(self.padding, str)
        if not plain or torch._C._are_functorch_transforms_active():
            return None
        windows = Windows(tuple(self.weight.shape[-2:]), self.stride, self.padding)  # type: ignore[arg-type]
        height, width = windows.output_size(x)
        numbers = len(x) // len(self.weight) * height * width * self.weight[0, 0].numel()
        return windows if numbers <= LARGE else None


class TaskLinear(nn.Linear):
    """`nn.Linear` whose weight may be `(tasks, out, in)` and bias `(tasks, out)`."""

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.ndim == 2:
            return super().forward(x)
        by_task = x.unflatten(0, (len(self.weight), -1))
        y = torch.bmm(by_task, self.weight.mT)
        return (y if self.bias is None else y + self.bias.unsqueeze(1)).flatten(0, 1)


TaskLayer = (TaskConv2d, TaskLinear)
