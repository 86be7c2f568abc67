"""Nets that take their batches a chunk of examples at a time."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from tasknorm.chunks.parts import InParts, whole
from tasknorm.chunks.passing import passed
from tasknorm.chunks.program import Program
from tasknorm.kernels import is_traced
from tasknorm.norms import Norm

Net = TypeVar("Net", bound=nn.Module)


def chunked(net: Net, examples: int, *, lean: bool = False) -> Net:
    """Make the net take its batches a chunk of examples at a time: the same outputs and gradients in less memory.

    For the backward pass a chunked net keeps the inputs of its norms, or what they are made from where that is smaller,
    and small tables; whatever is between is computed again. Without gradients it keeps the inputs of one norm, in a
    temporary file where they are larger than 32 MB. Moments are those of whole sets, in every phase, and running
    moments move once. Only rounding differs from the plain net. A batch of one chunk passes as it would without.

    Args:
        net: a net with norms of this package, which treats each example by itself otherwise. `torch.fx` must be able to
            trace what is around the norms.
        examples: how many examples pass at a time. If a batch holds several tasks, a chunk holds examples of each, and
            at least one.
        lean: keep only every other of these inputs where they do not grow: less memory, more time.

    Returns:
        The net itself. Hooks of modules around its norms are not called.

    Raises:
        ValueError: if the number is not positive, or the net cannot be divided into chunks.

    >>> from tasknorm import NORMS, context, nets
    >>> net = chunked(nets.resnet_small(NORMS["TaskNorm-I"]), 16)
    >>> with context(net):
    ...     net(torch.rand(40, 1, 28, 28)).shape
    torch.Size([40, 128])
    """
    if isinstance(examples, bool) or not isinstance(examples, int) or examples < 1:
        raise ValueError(f"a chunk must have a positive number of examples, got {examples!r}")
    if getattr(net, "_compiled_call_impl", None) is not None:
        raise ValueError(f"a compiled net cannot pass in chunks, got a compiled {type(net).__name__}; leave one out")
    net.__dict__["forward"] = _Forward(net, examples, lean=lean)
    return net


def unchunked(net: Net) -> Net:
    """The net itself, as it was before `chunked`."""
    if isinstance(net.__dict__.get("forward"), _Forward):
        net.__dict__.pop("forward")
    return net


def fitted(net: nn.Module, images: Tensor | InParts) -> Tensor | InParts:
    """Make a net take these images: in chunks if they come in parts; all of them if the net cannot take chunks."""
    if isinstance(images, InParts):
        try:
            chunked(net, images.chunk)
        except ValueError:
            return whole(images)
    return images


class _Forward:
    """What takes the place of a net's forward; copies of a net share its graph."""

    def __init__(self, net: nn.Module, examples: int, *, lean: bool) -> None:
        self.net, self.examples, self.lean = net, examples, lean
        self._norms: list[str] = []
        self._program: Program | None = None
        _ = self.program  # a net that cannot be divided is refused now

    @property
    def program(self) -> Program:
        """The net's graph, made anew if its norms are others by now."""
        norms = [name for name, module in self.net.named_modules() if isinstance(module, Norm)]
        if self._program is None or norms != self._norms:
            self._norms, self._program = norms, Program(self.net)
        return self._program

    def __call__(self, x: Tensor | InParts) -> Tensor:
        plain = type(self.net).forward
        if is_traced():
            if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
                raise RuntimeError("a net in chunks cannot be compiled; leave compile or chunk out")
            return plain(self.net, x)  # type: ignore[no-any-return]
        phase = next((module.phase for module in self.net.modules() if isinstance(module, Norm)), None)
        tasks = 1 if phase is None else phase.tasks
        size = max(1, self.examples // tasks)
        if len(x) % tasks or len(x) <= size * tasks:
            return plain(self.net, whole(x))  # type: ignore[no-any-return]
        return passed(self.net, self.program, x, tasks, size, lean=self.lean)

    def __deepcopy__(self, memo: Any) -> _Forward:
        copied = copy.copy(self)
        copied.net, copied._program = copy.deepcopy(self.net, memo), self._program
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """For copy and pickle, to which a graph means nothing."""
        return self.__dict__ | {"_program": None}
