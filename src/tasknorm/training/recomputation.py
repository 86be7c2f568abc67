"""Recompute activations in the backward pass rather than keep them: large contexts in less memory.

Torch recomputes a block when the backward pass needs it, by then outside of its phase, with other running moments and
without a task's own FiLM parameters. Here the modules inside go back, for the time of the recomputation, to what they
were when the block was first computed; whatever the recomputation changes in them is dropped, so that running moments
do not move twice. A norm that torch's own `checkpoint` calls again raises a PhaseError, unless it looks at nothing but
the example.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tasknorm.norms import Norm


class Recomputed(nn.Sequential):
    """An `nn.Sequential` that keeps for the backward pass only what one child hands to the next."""

    def forward(self, x: Tensor) -> Tensor:
        for block in self:
            if torch.is_grad_enabled():
                x = checkpoint(block, x, use_reentrant=False, context_fn=partial(as_first_computed, block))
            else:
                x = block(x)
        return x


def recompute(net: nn.Module) -> nn.Module:
    """Make the net recompute its blocks: the children of its outermost `nn.Sequential` modules that hold norms.

    Use this in place of `torch.utils.checkpoint` in a net with norms of this package: gradients and running moments are
    those of the plain net in every phase, wherever the backward pass takes place. A net whose blocks are not in an
    `nn.Sequential` calls torch's `checkpoint` itself, with `as_first_computed`.

    Raises:
        ValueError: if it has none.

    >>> from tasknorm import NORMS, nets
    >>> type(recompute(nets.protonets_conv4(NORMS["LN"])).blocks).__name__
    'Recomputed'
    """
    if not _recompute(net):
        raise ValueError(
            f"recompute needs a net whose blocks are in nn.Sequential, got {type(net).__name__}; leave recompute out"
        )
    return net


def _recompute(module: nn.Module) -> bool:
    found = False
    for name, child in list(module.named_children()):
        if type(child) is nn.Sequential and any(isinstance(module, Norm) for module in child.modules()):
            setattr(module, name, Recomputed(*child))
            found = True
        else:
            found |= _recompute(child)
    return found


def as_first_computed(block: nn.Module) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """What torch's `checkpoint` needs in order to recompute a block with norms: its modules as they are now.

    Args:
        block: the module that is checkpointed, or one that contains it.

    Returns:
        Contexts for the first computation, which is left alone, and for the second.

    >>> from tasknorm import NORMS
    >>> block, x = NORMS["TBN"](3), torch.rand(4, 3, 2, 2, requires_grad=True)
    >>> again = partial(as_first_computed, block)
    >>> checkpoint(block, x, use_reentrant=False, context_fn=again).square().sum().backward()
    """
    modules = list(block.modules())
    return nullcontext(), _as_before(modules, [_state(module) for module in modules])


def _state(module: nn.Module) -> dict[str, Any]:
    """A module's attributes; a norm's buffers as copies, since it writes into them."""
    own: dict[str, Any] = {"_parameters": dict(module._parameters), "_buffers": dict(module._buffers)}
    if isinstance(module, Norm):
        own["_buffers"] = {name: None if b is None else b.clone() for name, b in module._buffers.items()}
        own |= {"phase": module.phase, "restored": True}
    return module.__dict__ | own


@contextmanager
def _as_before(modules: list[nn.Module], states: list[dict[str, Any]]) -> Iterator[None]:
    now = [dict(module.__dict__) for module in modules]
    for module, state in zip(modules, states, strict=True):
        module.__dict__.update(state)
    try:
        yield
    finally:
        for module, state in zip(modules, now, strict=True):
            if isinstance(module, Norm):
                state = {"phase": None, "restored": False} | state
            module.__dict__.update(state)
