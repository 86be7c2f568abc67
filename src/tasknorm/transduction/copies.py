"""Copies of predictors that share no memory with the original, so that what one was asked cannot help another."""

from __future__ import annotations

import copy
import functools
import threading
import types
from typing import Any

LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.local)


def fresh_copy(predict: Any) -> Any:
    """A deep copy, of functions too: their closures, defaults, attributes and the global variables that they name.

    Modules, classes and locks are shared, and so is what they hold.

    Raises:
        Exception: whatever copying raises, for what cannot be copied.
    """
    return _copied(predict, {})


def _copied(value: Any, known: dict[int, Any]) -> Any:
    if isinstance(value, types.FunctionType):
        return _function(value, known)
    if isinstance(value, types.MethodType):
        return types.MethodType(value.__func__, _copied(value.__self__, known))
    if isinstance(value, functools.partial):
        arguments = (_copied(each, known) for each in value.args)
        named = {name: _copied(each, known) for name, each in value.keywords.items()}
        return functools.partial(_copied(value.func, known), *arguments, **named)
    if isinstance(value, types.ModuleType | type):
        return value
    try:
        return copy.deepcopy(value, known)
    except Exception:
        return _piecewise(value, known)


def _piecewise(value: Any, known: dict[int, Any]) -> Any:
    """A copy of an object that holds something that cannot be copied, such as a lock, which is then shared."""
    if isinstance(value, LOCKS):
        return value
    result = copy.copy(value)
    known[id(value)] = result
    for name, each in vars(value).items():
        result.__dict__[name] = _copied(each, known)
    return result


def _function(function: types.FunctionType, known: dict[int, Any]) -> types.FunctionType:
    """A function of its own memory. `known` is deepcopy's memo: what is shared inside stays shared among copies."""
    if id(function) in known:
        found: types.FunctionType = known[id(function)]
        return found
    variables = function.__globals__
    if id(variables) not in known:
        known[id(variables)] = dict(variables)
    cells = tuple(known.setdefault(id(cell), types.CellType()) for cell in function.__closure__ or ())
    result = types.FunctionType(function.__code__, known[id(variables)], function.__name__, None, cells)
    known[id(function)] = result  # before its contents, which may name the function itself
    for cell, original in zip(cells, function.__closure__ or (), strict=True):
        try:
            cell.cell_contents = _copied(original.cell_contents, known)
        except ValueError:  # a variable that has no value yet
            continue
    for name in _names(function.__code__) & variables.keys():
        value = variables[name]
        if getattr(value, "__globals__", variables) is variables:  # another module's functions are shared
            known[id(variables)][name] = _copied(value, known)
    result.__defaults__ = _copied_all(function.__defaults__, known)
    result.__kwdefaults__ = copy.deepcopy(function.__kwdefaults__, known)
    result.__dict__.update({name: _copied(value, known) for name, value in function.__dict__.items()})
    return result


def _copied_all(values: tuple[Any, ...] | None, known: dict[int, Any]) -> tuple[Any, ...] | None:
    return None if values is None else tuple(_copied(value, known) for value in values)


def _names(code: types.CodeType) -> set[str]:
    """The names that a function uses, and those of the functions inside it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*(_names(each) for each in inner))
