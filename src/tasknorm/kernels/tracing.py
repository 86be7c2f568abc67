"""What eager, compiled, exported and transformed code must do differently, in one place."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


def is_traced() -> bool:
    """Whether tensors have no values to inspect: in the compiler, in export, under function transforms."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def is_transformed(tensor: Tensor) -> bool:
    """Whether the tensor stands for another one in a transform of `torch.func`; never in the compiler."""
    if not is_traced() or torch.compiler.is_compiling():
        return False
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return wrapped


def is_in_backward() -> bool:
    """Whether this is called from a backward pass, as by torch's checkpoint; never in the compiler."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1


def apply(function: Any, *arguments: Any) -> Any:
    """`function.apply(*arguments)`, in eager mode without its check of signatures, slower than a small layer."""
    if is_traced():
        return function.apply(*arguments)
    if not torch.is_grad_enabled():
        return function.forward(*arguments)
    return super(Function, function).apply(*arguments)


def snapshot(table: Tensor) -> Tensor:
    """A detached copy of a buffer that the same pass will change.

    In compiled code a plain copy is not enough: torch's partitioner may drop it and read the buffer in the backward
    pass, after the change, which makes gradients silently wrong (pytorch/pytorch#197039). The partitioner does not look
    into an operator that it does not know, such as this one.
    """
    copied: Tensor = _opaque_copy(table.detach()) if torch.compiler.is_compiling() else table.detach().clone()
    return copied


# Operators of torch.library's lower level cost less to call than those of custom_op.
_LIBRARY = torch.library.Library("tasknorm", "DEF")
_LIBRARY.define("snapshot(Tensor table) -> Tensor")
_LIBRARY.impl("snapshot", torch.clone, "CompositeExplicitAutograd")
_opaque_copy = torch.ops.tasknorm.snapshot
torch.library.register_fake("tasknorm::snapshot", torch.empty_like, lib=_LIBRARY)
torch.library.register_vmap(
    "tasknorm::snapshot", lambda info, in_dims, table: (_opaque_copy(table), in_dims[0]), lib=_LIBRARY
)
