"""Norms and tasks with random contents, in float64 unless asked otherwise, for tests over every entry of NORMS."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import tasknorm
from support.oracle import Settings

CHANNELS = 6
OPTIONS: dict[str, dict[str, Any]] = {"GN": {"num_groups": 3}, "BRN": {"schedule": 0, "r_max": 1.5, "d_max": 0.5}}


def random_norm(label: str, *, seed: int = 0, dtype: torch.dtype = torch.float64, **options: Any) -> tasknorm.Norm:
    """A norm whose parameters and running moments are all random, as after some training."""
    norm = tasknorm.NORMS[label](CHANNELS, **OPTIONS.get(label, {}), **options).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) - 0.3)
        norm.running_mean.copy_(torch.randn(CHANNELS, generator=generator))
        norm.running_var.copy_(torch.rand(CHANNELS, generator=generator) + 0.5)
        norm.num_batches_tracked.fill_(7)
    return norm


def random_task(
    context: int = 4,
    target: int = 3,
    space: tuple[int, ...] = (3, 2),
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """A context and a target set of activations, of different means and variances, `(n, C, *space)`."""
    generator = torch.Generator().manual_seed(seed + 1000)
    x = torch.randn(context, CHANNELS, *space, generator=generator, dtype=dtype) * 2 + 1
    y = torch.randn(target, CHANNELS, *space, generator=generator, dtype=dtype) - 1
    return x, y


def settings(norm: Any) -> Settings:
    """What the oracle needs to know of a norm."""
    return Settings(
        weight=norm.weight,
        bias=norm.bias,
        running_mean=norm.running_mean.clone(),
        running_var=norm.running_var.clone(),
        eps=norm.eps,
        momentum=0.1,
        alpha_scale=getattr(norm, "alpha_scale", None),
        alpha_offset=getattr(norm, "alpha_offset", None),
        num_groups=getattr(norm, "num_groups", 1),
        r_max=getattr(norm, "r_max", 1.0),
        d_max=getattr(norm, "d_max", 0.0),
        unbiased=norm.unbiased,
    )


def two_passes(norm: tasknorm.Norm, task: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The task through the norm: its context, then its targets."""
    with tasknorm.context(norm):
        context = norm(task[0])
    with tasknorm.target(norm):
        target = norm(task[1])
    return context, target


def one_pass(norm: Any, *tasks: tuple[Tensor, Tensor]) -> Tensor:
    """The tasks through the norm in one joint pass, in the order [context; target] of each."""
    with tasknorm.joint(norm, context_size=len(tasks[0][0]), tasks=len(tasks)):
        result: Tensor = norm(torch.cat([part for task in tasks for part in task]))
    return result
