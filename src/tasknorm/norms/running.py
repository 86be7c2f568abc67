"""The running moments as buffers, whose mean over tasks is kept however a meta-batch is divided."""

from __future__ import annotations

import torch
from torch import Tensor

RUNNING = ("running_mean", "running_var", "num_batches_tracked")


def precise(buffer: Tensor) -> torch.dtype:
    """The dtype in which sums are accumulated."""
    return torch.float32 if buffer.device.type == "mps" else torch.float64  # mps has no float64


@torch.no_grad()
def write_mean(buffer: Tensor, mean: Tensor) -> None:
    """Set a running moment, or the count of its updates, to a mean over tasks."""
    buffer.copy_(mean if buffer.is_floating_point() else mean.round())
