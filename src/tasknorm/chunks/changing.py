"""Which calls of a graph change a value in place, and which values share its memory."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator, Mapping

from torch import fx, nn

_OPERATORS = {  # iadd for add, ior for or_, and so on
    getattr(operator, name)
    for name in dir(operator)
    if name.startswith("i") and {name[1:], f"{name[1:]}_"} & set(dir(operator))
}
_VIEWS = {  # calls whose result may share the memory of their first argument
    *("getitem", "getattr", "view", "view_as", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose"),
    *("permute", "movedim", "swapaxes", "t", "narrow", "select", "chunk", "split", "unbind", "expand", "expand_as"),
    *("diagonal", "unfold", "as_strided", "detach", "contiguous", "to", "type_as", "float", "double", "alias"),
}


def is_in_place(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether a call writes into its first argument, as `x += y`, `x.relu_()` and `nn.ReLU(inplace=True)` do."""
    if node.op == "call_module":
        return any(getattr(module, "inplace", False) for module in modules[str(node.target)].modules())
    if node.op == "call_method":
        return _is_underscored(str(node.target))
    if node.op != "call_function":
        return False
    return node.target in _OPERATORS or _is_underscored(getattr(node.target, "__name__", "")) or _is_told(node)


def changed(node: fx.Node, modules: Mapping[str, nn.Module]) -> Iterator[fx.Node]:
    """The values that a call changes in place: its first argument, and what that may be a view of."""
    value = node.args[0] if node.args and is_in_place(node, modules) else None
    while isinstance(value, fx.Node):
        yield value
        value = value.args[0] if value.args and _may_be_view(value, modules) else None


def _may_be_view(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    if node.op == "call_module":
        return isinstance(modules[str(node.target)], nn.Flatten | nn.Unflatten | nn.Identity)
    name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
    return name in _VIEWS


def _is_underscored(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _is_told(node: fx.Node) -> bool:
    try:
        given = inspect.signature(node.target).bind(*node.args, **node.kwargs).arguments  # type: ignore[arg-type]
    except (TypeError, ValueError):  # built in
        given = dict(node.kwargs)
    return bool(given.get("inplace", False))
