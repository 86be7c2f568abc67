"""Which calls of a graph change their first argument in place."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping

from torch import fx, nn

_OPERATORS = {getattr(operator, name) for name in dir(operator) if name.startswith("i") and name[1:] in dir(operator)}


def is_in_place(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether a call writes into its first argument, as `x += y`, `x.relu_()` and `nn.ReLU(inplace=True)` do."""
    if node.op == "call_module":
        return any(getattr(module, "inplace", False) for module in modules[str(node.target)].modules())
    if node.op == "call_method":
        return _is_underscored(str(node.target))
    if node.op != "call_function":
        return False
    return node.target in _OPERATORS or _is_underscored(getattr(node.target, "__name__", "")) or _is_told(node)


def _is_underscored(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _is_told(node: fx.Node) -> bool:
    try:
        given = inspect.signature(node.target).bind(*node.args, **node.kwargs).arguments  # type: ignore[arg-type]
    except (TypeError, ValueError):  # built in
        given = dict(node.kwargs)
    return bool(given.get("inplace", False))
