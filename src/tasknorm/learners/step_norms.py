"""The norms of a net at each inner step of MAML: the net's own at all of them, or others at each."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from torch import Tensor, nn

from tasknorm.norms import RUNNING, Norm

State = dict[str, Tensor]  # tensors of the net by name
T = TypeVar("T")


def later_norms(net: nn.Module, steps: int) -> nn.ModuleList:
    """Copies of a net's norms for each step after the first: with MAML++, each step has norms of its own."""
    norms = [norm for _, norm in norms_of(net)]
    return nn.ModuleList(nn.ModuleList(map(copy.deepcopy, norms)) for _ in range(steps - 1))


def norms_of(net: nn.Module) -> list[tuple[str, Norm]]:
    """The norms of a net with their names."""
    return [(name, module) for name, module in net.named_modules() if isinstance(module, Norm)]


class StepNorms:
    """What the norms learn and remember at each step, by the names that it has in the net.

    The first step, number 0, has the net's own norms. Steps beyond the last one with norms of its own share that one's.

    Args:
        net: the net.
        later: the norms of later steps (see `later_norms`); none if all steps share the net's.
    """

    def __init__(self, net: nn.Module, later: nn.ModuleList) -> None:
        self._net, self._own = net, norms_of(net)
        self._steps: list[list[tuple[str, Norm]]] = [self._own]
        for norms in later:
            pairs = zip(self._own, norms, strict=True)  # type: ignore[call-overload]
            self._steps.append([(name, norm) for (name, _), norm in pairs])

    @property
    def need_context(self) -> bool:
        """Whether a norm needs the task's context."""
        return any(norm.needs_context for _, norm in self._own)

    @property
    def parameter_names(self) -> set[str]:
        """Names of the norms' parameters in the net."""
        ids = {id(parameter) for _, norm in self._own for parameter in norm.parameters()}
        return {name for name, parameter in self._net.named_parameters() if id(parameter) in ids}

    def parameters(self, step: int) -> State:
        """What the norms of a step learn."""
        return {
            f"{name}.{kind}": parameter
            for name, norm in self.of(self._steps, step)
            for kind, parameter in norm.named_parameters()
            if parameter.requires_grad
        }

    def state(self, step: int) -> State:
        """All tensors of a step's norms that take the place of the net's; none for the first step."""
        norms = self.of(self._steps, step)
        if norms is self._own:
            return {}
        state = {name: [*norm.named_parameters(), *norm.named_buffers()] for name, norm in norms}
        return {f"{name}.{kind}": tensor for name, tensors in state.items() for kind, tensor in tensors}

    def running(self, step: int) -> State:
        """The running moments of a step's norms that move at meta-train; none at meta-test."""
        if not self._net.training:
            return {}
        moving = [(name, norm) for name, norm in self.of(self._steps, step) if norm.tracks]
        return {f"{name}.{kind}": getattr(norm, kind) for name, norm in moving for kind in RUNNING}

    def all_running(self) -> list[State]:
        """The running moments of all steps with norms of their own."""
        return [self.running(step) for step in range(len(self._steps))]

    @contextmanager
    def twice(self) -> Iterator[None]:
        """Passes inside are differentiated twice, and may be repeated in a backward pass from the same moments."""
        for _, norm in self._own:
            norm.twice = norm.restored = True
        try:
            yield
        finally:
            for _, norm in self._own:
                norm.twice = norm.restored = False

    @staticmethod
    def of(each: Sequence[T], step: int) -> T:
        """The one of a step, from one for each step that has norms of its own."""
        return each[min(step, len(each) - 1)]
