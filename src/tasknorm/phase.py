"""What a forward pass carries: a task's context, its targets, or both.

`train()` and `eval()` keep torch's meaning, meta-training and meta-testing. The phase is the other question, which
the paper's section 3 asks of every norm: is this the set to learn from, or the set to predict?
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn


class PhaseError(RuntimeError):
    """A norm was used in a phase, or without one, in a way that its definition does not allow."""


@dataclass(frozen=True, eq=False)
class Phase:
    """What one forward pass carries.

    Args:
        kind: the set, or both sets, in the batch.
        tasks: how many tasks are laid end to end; in a joint pass each as [context; target].
        context_size: in a joint pass, how many context examples each task has.
        size: the same as a tensor: a compiled model then serves every size, where a number would compile again.
        stores: whether a norm keeps the context's moments for the target phase.
    """

    kind: Literal["context", "target", "joint"]
    tasks: int = 1
    context_size: int = 0
    size: Tensor | None = None
    stores: bool = False


class Phased(Protocol):
    """A module that takes part in phases: every norm, and any class of yours that defines these three."""

    phase: Phase | None

    def enter(self, phase: Phase) -> None:
        """Check that the phase can begin, and set it; raise and change nothing if it cannot."""

    def leave(self, succeeded: bool) -> None:
        """End the phase: keep what it learned from a context, or forget it if the phase ended with an error."""


@contextmanager
def context(model: nn.Module) -> Iterator[nn.Module]:
    """Forward passes inside carry the context set of one task; each norm remembers its moments.

    After the block the moments are there for `target`, with their graph; detached copies are saved in buffers, and so
    in `state_dict`, if the block ends without an error. A second pass inside one block replaces the first.

    Args:
        model: any module that contains norms of this package.

    Raises:
        PhaseError: if the model has no such norm or is in a phase already.
        ValueError: if a parameter of alpha is not finite.

    >>> import tasknorm
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), tasknorm.NORMS["MetaBN"](8))
    >>> with tasknorm.context(model):
    ...     features = model(torch.randn(5, 3, 16, 16))
    >>> with tasknorm.target(model):
    ...     features = model(torch.randn(1, 3, 16, 16))
    """
    with _phase(model, Phase("context", stores=True)):
        yield model


@contextmanager
def target(model: nn.Module, sets: int = 1) -> Iterator[nn.Module]:
    """Forward passes inside carry targets, normalised with what the last `context` left behind.

    Args:
        model: any module that contains norms of this package.
        sets: how many target sets of equal size the batch holds, end to end, all of this context: each is normalised
            as if it had come alone.

    Raises:
        PhaseError: if the model has no such norm or is in a phase already; in the forward pass, if a norm that needs a
            context has seen none.
        ValueError: if the number of sets is not positive; in the forward pass, if the batch cannot be divided so.
    """
    _check_positive("sets", sets)
    with _phase(model, Phase("target", sets)):
        yield model


@contextmanager
def joint(model: nn.Module, context_size: int, tasks: int = 1) -> Iterator[nn.Module]:
    """Forward passes inside carry whole tasks: a batch of `tasks` times [context; target], laid end to end.

    Gives the same outputs and gradients as `context` and `target` one after the other, task by task, with one call of
    each layer. It stores no context moments.

    Args:
        model: any module that contains norms of this package.
        context_size: how many context examples each task has; the rest of its rows are targets.
        tasks: how many tasks of equal size the batch holds.

    Raises:
        PhaseError: if the model has no such norm or is in a phase already.
        ValueError: if a size is not positive; in the forward pass, if the batch cannot be divided so.

    >>> import tasknorm
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), tasknorm.NORMS["TaskNorm-I"](8))
    >>> with tasknorm.joint(model, context_size=5, tasks=2):
    ...     features = model(torch.randn(2 * (5 + 10), 3, 16, 16))
    """
    for name, value in (("context_size", context_size), ("tasks", tasks)):
        _check_positive(name, value)
    size = torch.tensor(context_size, device=_device(model))
    with _phase(model, Phase("joint", tasks, context_size, size)):
        yield model


@contextmanager
def contexts(model: nn.Module, tasks: int) -> Iterator[nn.Module]:
    """Forward passes inside carry the contexts of several tasks, and no targets: a batch of `tasks` sets, end to end.

    Gives the same outputs and gradients as `context`, task by task, and stores no moments: what an inner loop needs.

    Args:
        model: any module that contains norms of this package.
        tasks: how many contexts of equal size the batch holds.

    Raises:
        PhaseError: if the model has no such norm or is in a phase already.
        ValueError: if the number of tasks is not positive; in the forward pass, if the batch cannot be divided so.

    >>> import tasknorm
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), tasknorm.NORMS["TaskNorm-I"](8))
    >>> with tasknorm.contexts(model, tasks=2):
    ...     features = model(torch.randn(2 * 5, 3, 16, 16))
    """
    _check_positive("tasks", tasks)
    with _phase(model, Phase("context", tasks)):
        yield model


def _check_positive(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")


@contextmanager
def _phase(model: nn.Module, phase: Phase) -> Iterator[None]:
    norms = _norms(model, phase.kind)
    entered: list[Phased] = []
    succeeded = False
    try:
        for norm in norms:
            norm.enter(phase)
            entered.append(norm)
        yield
        succeeded = True
    finally:
        for norm in entered:
            norm.leave(succeeded)


def _norms(model: nn.Module, kind: str) -> list[Phased]:
    norms: list[Any] = [module for module in model.modules() if _is_phased(type(module))]
    if not norms:
        raise PhaseError(
            f"{kind}() needs a model with norms of tasknorm, and {type(model).__name__} has none; "
            'swap them in first: model = tasknorm.convert(model, "TaskNorm-I")'
        )
    for norm in norms:
        if norm.phase is not None:
            raise PhaseError(
                f"phases do not nest: {kind}() was entered inside {norm.phase.kind}() of the same model; "
                "leave the first block before the second"
            )
    return norms


def _is_phased(kind: type) -> bool:
    return hasattr(kind, "enter") and hasattr(kind, "leave") and hasattr(kind, "phase")


def _device(model: nn.Module) -> torch.device | None:
    return next((tensor.device for tensor in chain(model.parameters(), model.buffers())), None)
