"""The running moments as buffers, whose mean over tasks is kept however a meta-batch is divided."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

RUNNING = ("running_mean", "running_var", "num_batches_tracked")


class RunningMean:
    """The mean over a meta-batch's tasks of what its parts make of some running moments.

    Args:
        buffers: the running moments by name, to be set by `write`.
        tasks: of the whole meta-batch.

    Attributes:
        sums: what was added so far, by name, for processes that share a meta-batch to add up.
    """

    def __init__(self, buffers: Mapping[str, Tensor], tasks: int) -> None:
        self._buffers, self._tasks = dict(buffers), tasks
        self.sums = {name: torch.zeros_like(b, dtype=_sum_dtype(b)) for name, b in buffers.items()}

    @torch.no_grad()
    def add(self, values: Mapping[str, Tensor], count: int) -> None:
        """Add what a part of the meta-batch, of `count` tasks, made of the moments."""
        for name, total in self.sums.items():
            total += values[name].to(total.dtype) * (count / self._tasks)

    @torch.no_grad()
    def write(self) -> None:
        """Set each running moment, and the count of its updates, to the mean."""
        for name, buffer in self._buffers.items():
            mean = self.sums[name]
            buffer.copy_(mean if buffer.is_floating_point() else mean.round())


def _sum_dtype(buffer: Tensor) -> torch.dtype:
    """The dtype in which sums are accumulated."""
    return torch.float32 if buffer.device.type == "mps" else torch.float64  # mps has no float64
