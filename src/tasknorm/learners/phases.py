"""Phases of nets that may have no norm to convert, such as ConvNeXt: each example then passes by itself."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn

from tasknorm.phase import context, has_norms, joint, target_for_life


def joint_pass(net: nn.Module, context_size: int, tasks: int) -> AbstractContextManager[Any]:
    """`tasknorm.joint`, or nothing for a net without norms."""
    return joint(net, context_size, tasks) if has_norms(net) else nullcontext()


def context_pass(net: nn.Module) -> AbstractContextManager[Any]:
    """`tasknorm.context`, or nothing for a net without norms."""
    return context(net) if has_norms(net) else nullcontext()


def targets_for_life(net: nn.Module, sets: int = 1) -> None:
    """`tasknorm.phase.target_for_life`, or nothing for a net without norms."""
    if has_norms(net):
        target_for_life(net, sets)
