"""What no norm can be asked to do: each refusal says why, and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from tasknorm.kernels import is_in_backward, is_transformed
from tasknorm.phase import Phase, PhaseError

if TYPE_CHECKING:
    from tasknorm.norms.norm import Norm

INSTEAD = (
    "use torch.compile(model), or torch.export.export inside `with tasknorm.target(model):`, or Predictor.export for a "
    "file of its own (.pt2 or .onnx)"
)


def check_class(kind: type[Norm]) -> None:
    """Raise if a class of norms does not say what the tools must know of it."""
    missing = [name for name in ("label", "transductive", "needs_context") if not hasattr(kind, name)]
    if missing:
        raise TypeError(
            f"the class {kind.__name__} does not say its {' and '.join(missing)}; set label (its name), transductive "
            "(do targets see each other?) and needs_context (do its moments use the context?) in its body"
        )


def check_input(norm: Norm, x: Tensor) -> None:
    """Raise if these are no activations that the norm can normalise."""
    if not x.is_floating_point():
        raise TypeError(
            f"{norm.label} normalises floating-point activations, got {x.dtype}; convert them first: x.float()"
        )
    if x.ndim < 2 or x.shape[1] != norm.num_features:
        raise ValueError(
            f"{norm.label} was made for {norm.num_features} channels and expects (examples, {norm.num_features}, "
            f"*space), got a tensor of shape {tuple(x.shape)}"
        )
    if x.numel() == 0:
        what = "batch" if norm.phase is None or norm.phase.kind == "joint" else f"{norm.phase.kind} set"
        raise ValueError(
            f"{norm.label} needs at least one example in the {what}, got a tensor of shape {tuple(x.shape)}"
        )


def check_caller(norm: Norm, x: Tensor | torch.fx.Proxy) -> None:
    """Raise if the norm is called by a tracer that cannot follow it, or again by torch's checkpoint."""
    if isinstance(x, torch.fx.Proxy):
        raise NotImplementedError(
            f"torch.fx.symbolic_trace cannot look into {norm.label}, which asks for its phase and the shape of its "
            "batch; trace with a torch.fx.Tracer whose is_leaf_module is true for every tasknorm.Norm, and the norms "
            f"stay whole in the graph; or {INSTEAD}"
        )
    if torch.compiler.is_compiling():
        return
    if torch._C._is_tracing():
        raise NotImplementedError(
            f"torch.jit.trace cannot record {norm.label}: it would fix the phase and the sizes of this one call; "
            f"{INSTEAD}"
        )
    if is_in_backward() and not norm.restored and norm.looks_beyond_the_example:
        raise PhaseError(
            f"{norm.label} was called again in the backward pass, as torch.utils.checkpoint does, where "
            "neither the phase nor the running moments of its first call are known; wrap the net with "
            "tasknorm.training.recompute(net), or give checkpoint(..., use_reentrant=False, "
            "context_fn=functools.partial(tasknorm.training.as_first_computed, block))"
        )


def refuse_script(norm: Norm) -> NoReturn:
    """Say that the norm cannot be scripted."""
    raise NotImplementedError(
        f"torch.jit.script cannot compile {norm.label}: TorchScript, which torch has deprecated, knows no phases; "
        f"{INSTEAD}"
    )


def check_may_store(norm: Norm, phase: Phase, x: Tensor) -> None:
    """Raise if the norm has kept a context of this phase already, or a transform would have to write to its buffers."""
    if norm.has_stored:
        raise PhaseError(
            f"{norm.label}{_path(norm, phase)} was called twice in one context phase, and can keep the moments of one "
            "call; pass the whole context in one forward pass. If the model uses this module in two places, use "
            "tasknorm.joint(model, context_size=...), which is exact for it"
        )
    if is_transformed(x) and not is_transformed(norm.context_mean):
        raise PhaseError(
            f"{norm.label} cannot keep a context under vmap, grad or another transform of torch.func, whose results "
            "must not be written to a module; pass context and targets together in tasknorm.joint(model, "
            "context_size=...), which keeps nothing and works under all of them"
        )


def check_may_track(norm: Norm, mean: Tensor) -> None:
    """Raise if a transform would have to write to the running moments."""
    if is_transformed(mean) and not is_transformed(norm.running_mean):
        raise RuntimeError(
            f"{norm.label} cannot move its running moments under vmap, grad or another transform of torch.func, whose "
            "results must not be written to a module; pass copies of its buffers in through "
            "torch.func.functional_call, or call model.eval()"
        )


def check_not_stale(norm: Norm, mean: Tensor, weights: list[tuple[Tensor, int]]) -> None:
    """Raise if a weight on which the context's moments depend has changed since; `mean` is theirs, with its graph."""
    changed = [weight for weight, version in weights if weight._version != version]
    if changed and not _leaves(mean.grad_fn).isdisjoint(map(id, changed)):
        raise PhaseError(
            f"the weights have changed since {norm.label} saw the context (an optimizer step?), and its context "
            "moments are those of the old weights; pass the context again before the targets"
        )


def versions(model: nn.Module | None) -> list[tuple[Tensor, int]]:
    """The parameters that a graph may depend on, each with how often it has been changed in place."""
    if model is None or not torch.is_grad_enabled():
        return []
    weights = (weight for weight in model.parameters() if not is_lazy(weight) and not weight.is_inference())
    return [(weight, weight._version) for weight in weights]


def _leaves(node: Any) -> set[int]:
    """The ids of the tensors on which a graph depends, as far as eager mode recorded it."""
    leaves: set[int] = set()
    seen, waiting = set(), [node]
    while waiting:
        node = waiting.pop()
        # A compiled function depends on all that it contains, also on what comes after the norm: it proves nothing.
        if node is None or node in seen or node.name().startswith("CompiledFunction"):
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.add(id(node.variable))
        waiting.extend(following for following, _ in node.next_functions)
    return leaves


def _path(norm: Norm, phase: Phase) -> str:
    """Where the norm is in the model whose phase this is, for messages."""
    if phase.model is None:
        return ""
    name = next((name for name, module in phase.model.named_modules() if module is norm), "")
    return f" ({name!r})" if name else ""
