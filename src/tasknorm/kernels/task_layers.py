"""Layers that serve many tasks in one call, each task with weights of its own.

Pass them weights with a task axis in front, by `torch.func.functional_call`, and a batch that holds the tasks one after
the other, all of one size. Each task's rows then pass through its own weights. MAML (Finn et al., 2017) adapts weights
in this way.

Or pass the tasks' weights as `adapted_weight` and `adapted_bias`. They are then constants, and their gradients go to
the layer's own weight and bias (see `tied`), without a gradient for each task. That is enough for the outer loop of
first-order MAML.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tasknorm.kernels.task_convolution import task_convolution, tied
from tasknorm.kernels.windows import Windows

LARGE = 1 << 21  # size of one task's windows, in numbers, above which matrix products are slower


class TaskConv2d(nn.Conv2d):
    """`nn.Conv2d` whose weight may be `(tasks, out, in, height, width)` and bias `(tasks, out)`.

    Small images are convolved as matrix products (see `task_convolution`), large ones with tasks as groups of channels.
    """

    adapted_weight: Tensor | None
    adapted_bias: Tensor | None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _adaptable(self)

    def forward(self, x: Tensor) -> Tensor:
        at = self.weight if self.adapted_weight is None else self.adapted_weight
        if at.ndim == 4:
            return super().forward(x)
        windows = self._windows(x, at)
        if windows is not None:
            return task_convolution(x, self.weight, self.bias, windows, self.adapted_weight, self.adapted_bias)
        weight, bias = _tied(self)
        tasks, out = weight.shape[:2]
        grouped = x.unflatten(0, (tasks, -1)).transpose(0, 1).flatten(1, 2)
        bias = None if bias is None else bias.flatten()
        y = nn.functional.conv2d(
            grouped, weight.flatten(0, 1), bias, self.stride, self.padding, self.dilation, tasks * self.groups
        )
        return y.view(len(y), tasks, out, *y.shape[2:]).transpose(0, 1).flatten(0, 1)

    def _windows(self, x: Tensor, weight: Tensor) -> Windows | None:
        """The windows of the convolution if matrix products are faster, else None."""
        plain = self.groups == 1 and self.dilation == (1, 1) and not isinstance(self.padding, str)
        if not plain or torch._C._are_functorch_transforms_active():
            return None
        windows = Windows(tuple(weight.shape[-2:]), self.stride, self.padding)  # type: ignore[arg-type]
        if x.device.type == "cpu" and not torch.is_autocast_enabled("cpu"):
            return windows
        height, width = windows.output_size(x)
        numbers = len(x) // len(weight) * height * width * weight[0, 0].numel()
        return windows if numbers <= LARGE else None


class TaskLinear(nn.Linear):
    """`nn.Linear` whose weight may be `(tasks, out, in)` and bias `(tasks, out)`."""

    adapted_weight: Tensor | None
    adapted_bias: Tensor | None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _adaptable(self)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = _tied(self)
        if weight.ndim == 2:
            return super().forward(x)
        y = torch.bmm(x.unflatten(0, (len(weight), -1)), weight.mT)
        return (y if bias is None else y + bias.unsqueeze(1)).flatten(0, 1)


TaskLayer = (TaskConv2d, TaskLinear)


def as_adapted(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of tasks, renamed so that layers take them as adapted: `a.weight` becomes `a.adapted_weight`."""
    parts = {name: name.rpartition(".") for name in weights}
    return {f"{path}{dot}adapted_{last}": weights[name] for name, (path, dot, last) in parts.items()}


def _adaptable(layer: nn.Module) -> None:
    for name in ("adapted_weight", "adapted_bias"):
        layer.register_buffer(name, None, persistent=False)


def _tied(layer: TaskConv2d | TaskLinear) -> tuple[Tensor, Tensor | None]:
    """The layer's weight and bias, or the tasks' adapted ones if there are any."""
    weight, bias = layer.weight, layer.bias
    if layer.adapted_weight is not None:
        weight = tied(weight, layer.adapted_weight)
    if bias is not None and layer.adapted_bias is not None:
        bias = tied(bias, layer.adapted_bias)
    return weight, bias
