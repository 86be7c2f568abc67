"""What a forward pass carries: a task's context, its targets, or both.

`train()` and `eval()` keep torch's meaning, meta-training and meta-testing. The phase is the other question, which
the paper's section 3 asks of every norm: is this the set to learn from, or the set to predict?
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from threading import RLock, get_ident
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

_ENTERING = RLock()


class PhaseError(RuntimeError):
    """A norm was used in a phase, or without one, in a way that its definition does not allow."""


@dataclass(frozen=True, eq=False)
class Phase:
    """What one forward pass carries.

    Args:
        kind: the set, or both sets, in the batch.
        tasks: how many tasks are laid end to end; in a joint pass each as [context; target].
        context_size: in a joint pass, how many context examples each task has; 0 if the number is symbolic.
        size: the same as a tensor: a compiled model then serves every size, where a number would compile again.
        stores: whether a norm keeps the context's moments for the target phase.
        model: whose phase it is, if it stores; for the names of its norms and the versions of its weights.
        weights: the model's weights and their versions when its first norm was called, if it stores.
        thread: which thread entered it; None if a compiled function did.
        for_life: whether it never ends.
    """

    kind: Literal["context", "target", "joint"]
    tasks: int = 1
    context_size: int = 0
    size: Tensor | None = None
    stores: bool = False
    model: nn.Module | None = field(default=None, repr=False)
    weights: list[tuple[Tensor, int]] = field(default_factory=list, repr=False)
    thread: int | None = None
    for_life: bool = False


class Phased(Protocol):
    """A module that takes part in phases: every norm, and any class of yours that defines these three."""

    phase: Phase | None

    def enter(self, phase: Phase) -> None:
        """Check that the phase can begin, and set it; raise and change nothing if it cannot."""

    def leave(self, succeeded: bool) -> None:
        """End the phase: keep what it learned from a context, or forget it if the phase ended with an error."""


@contextmanager
def context(model: nn.Module) -> Iterator[nn.Module]:
    """One forward pass inside carries the whole context set of one task; each norm remembers its moments.

    After the block the moments are there for `target`, with their graph; detached copies are saved in buffers, and so
    in `state_dict`, if the block ends without an error. Under the transforms of `torch.func`, such as `vmap`, nothing
    can be remembered: use `joint`.

    Args:
        model: any module that contains norms of this package.

    Raises:
        PhaseError: if the model has no such norm or is in a phase already, of this thread or another; in the forward
            pass, if a norm that needs a context is called a second time: a context in two parts has no moments of its
            own, and a module that is used in two places would need two memories. The latter is exact in `joint`.
        ValueError: if a parameter of alpha is not finite.

    >>> import tasknorm
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), tasknorm.NORMS["MetaBN"](8))
    >>> with tasknorm.context(model):
    ...     features = model(torch.randn(5, 3, 16, 16))
    >>> with tasknorm.target(model):
    ...     features = model(torch.randn(1, 3, 16, 16))
    """
    with _phase(model, Phase("context", stores=True, model=model, thread=_thread())):
        yield model


@contextmanager
def target(model: nn.Module, sets: int = 1) -> Iterator[nn.Module]:
    """Forward passes inside carry targets, normalised with what the last `context` left behind.

    If the weights change after the context, pass the context again: its moments are those of the old weights. This
    raises if the context was passed in eager mode with gradients enabled. Without them nobody recorded which weights
    the moments depend on, so a context of `no_grad` or of a compiled model is used as it is.

    Args:
        model: any module that contains norms of this package.
        sets: how many target sets of equal size the batch holds, end to end, all of this context: each is normalised
            as if it had come alone.

    Raises:
        PhaseError: if the model has no such norm or is in a phase already, or its weights have changed since the
            context; in the forward pass, if a norm that needs a context has seen none.
        ValueError: if the number of sets is not positive; in the forward pass, if the batch cannot be divided so.
    """
    _check_positive("sets", sets)
    with _phase(model, Phase("target", sets, thread=_thread())):
        yield model


def target_for_life(model: nn.Module, sets: int = 1) -> None:
    """Put the model into its target phase and leave it there: any number of threads may then call it at once.

    Raises:
        PhaseError: if the model has no norm of this package, or is in a phase that ends.
    """
    _enter(model, Phase("target", sets, for_life=True))


def has_norms(model: nn.Module) -> bool:
    """Whether a model has a norm of this package, or another module that takes part in phases."""
    return bool(_norms(model))


def release(model: nn.Module) -> None:
    """End what `target_for_life` began."""
    for norm in _norms(model):
        norm.leave(succeeded=False)


@contextmanager
def joint(model: nn.Module, context_size: int | torch.SymInt, tasks: int = 1) -> Iterator[nn.Module]:
    """Forward passes inside carry whole tasks: a batch of `tasks` times [context; target], laid end to end.

    Gives the same outputs and gradients as `context` and `target` one after the other, task by task, with one call of
    each layer. It stores no context moments, so it works under `vmap`, and is exact for a module that the model uses in
    two places.

    Args:
        model: any module that contains norms of this package.
        context_size: how many context examples each task has; the rest of its rows are targets. In `torch.export` it
            may be symbolic, such as `len(context)` of a context with a dynamic size.
        tasks: how many tasks of equal size the batch holds.

    Raises:
        PhaseError: if the model has no such norm or is in a phase already.
        ValueError: if a size is not positive; in the forward pass, if the batch cannot be divided so.

    >>> import tasknorm
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), tasknorm.NORMS["TaskNorm-I"](8))
    >>> with tasknorm.joint(model, context_size=5, tasks=2):
    ...     features = model(torch.randn(2 * (5 + 10), 3, 16, 16))
    """
    number = 0
    if not isinstance(context_size, torch.SymInt):
        _check_positive("context_size", context_size)
        number = context_size
    _check_positive("tasks", tasks)
    size = torch.full((), context_size, dtype=torch.long, device=_device(model))  # type: ignore[arg-type]
    with _phase(model, Phase("joint", tasks, number, size, thread=_thread())):
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
    with _phase(model, Phase("context", tasks, thread=_thread())):
        yield model


def _check_positive(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")


@contextmanager
def _phase(model: nn.Module, phase: Phase) -> Iterator[None]:
    entered = _enter(model, phase)
    succeeded = False
    try:
        yield
        succeeded = True
    finally:
        with _exclusively():
            for norm in entered:
                norm.leave(succeeded)


def _enter(model: nn.Module, phase: Phase) -> list[Phased]:
    """Begin the phase in all norms of the model, or in none."""
    with _exclusively():
        norms = _norms(model)
        _check_may_begin(phase, model, norms)
        for i, norm in enumerate(norms):
            try:
                norm.enter(phase)
            except Exception:
                for entered in norms[:i]:
                    entered.leave(succeeded=False)
                raise
        return norms


def _exclusively() -> AbstractContextManager[Any]:
    """While this is held, no other thread enters or leaves a phase; the compiler knows no locks."""
    return nullcontext() if torch.compiler.is_compiling() else _ENTERING


def _thread() -> int | None:
    return None if torch.compiler.is_compiling() else get_ident()


def _norms(model: nn.Module) -> list[Phased]:
    norms: list[Any] = [module for module in model.modules() if _is_phased(type(module))]
    return norms


def _check_may_begin(phase: Phase, model: nn.Module, norms: list[Phased]) -> None:
    if not norms:
        raise PhaseError(
            f"{phase.kind}() needs a model with norms of tasknorm, and {type(model).__name__} has none; "
            'swap them in first: model = tasknorm.convert(model, "TaskNorm-I")'
        )
    for norm in norms:
        if norm.phase is not None and not (norm.phase.for_life and phase.for_life):
            raise PhaseError(_nested(phase, norm.phase))


def _nested(phase: Phase, outer: Phase) -> str:
    if outer.for_life:
        return (
            f"the model belongs to a Predictor, which stays in its target phase, and {phase.kind}() was entered on it; "
            "call the predictor itself for targets, and copy.deepcopy(predictor.net) for anything else"
        )
    if None not in (outer.thread, phase.thread) and outer.thread != phase.thread:
        return (
            f"a model is in one phase at a time, and {phase.kind}() was entered while another thread is inside "
            f"{outer.kind}() of the same model; give each thread its own copy.deepcopy(model), or adapt a Predictor, "
            "which any number of threads may call"
        )
    return (
        f"phases do not nest: {phase.kind}() was entered inside {outer.kind}() of the same model; "
        "leave the first block before the second"
    )


def _is_phased(kind: type) -> bool:
    return hasattr(kind, "enter") and hasattr(kind, "leave") and hasattr(kind, "phase")


def _device(model: nn.Module) -> torch.device | None:
    return next((tensor.device for tensor in chain(model.parameters(), model.buffers())), None)
