"""A scorer by its name, `package.module:function`."""

from __future__ import annotations

import inspect
import sys
from functools import reduce
from importlib import import_module
from types import CellType
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from tasknorm.errors import SettingsError, one_line, short
from tasknorm.transduction.scorers import Score


def named_scorer(name: str) -> Score:
    """The scorer of a name; modules are looked for in the current folder too.

    What can be called without arguments, a function or a class, makes the scorer: it is called once. Anything else
    that can be called, such as a function of a batch or a torch module, is the scorer.

    Raises:
        SettingsError: if there is no such module or function, or importing or calling it fails.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise SettingsError(f"a scorer is named package.module:function, got {short(name)}; for example score:predict")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as with python -m: modules of the current folder
    try:
        home = import_module(module)
    except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is imported
        raise SettingsError(
            f"{name}: the module {module!r} cannot be imported ({_said(error)}); correct its name, install what it "
            "needs, or go to the folder that it is in"
        ) from None
    try:
        found: Any = reduce(getattr, attribute.split("."), home)
    except AttributeError as error:
        raise SettingsError(f"{name}: there is no such function ({one_line(str(error))}); correct its name") from None
    return _made(name, found)


def suspects(score: Any) -> list[str]:
    """Modules within a scorer that are known to look at the whole batch: batch norms in train(), and TBN.

    Found where a scorer usually keeps its network: it is one, or names it in its variables or attributes.
    """
    owner = getattr(score, "__self__", score)
    places = [owner, *(vars(owner).values() if hasattr(owner, "__dict__") else ())]
    if inspect.isfunction(score):
        places += [score.__globals__[name] for name in score.__code__.co_names if name in score.__globals__]
        places += [cell.cell_contents for cell in score.__closure__ or () if cell != CellType()]
    return [
        f"{path or 'the network'} ({type(module).__name__})"
        for net in {id(place): place for place in places if isinstance(place, nn.Module)}.values()
        for path, module in net.named_modules()
        if _looks_around(module)
    ]


def _looks_around(module: nn.Module) -> bool:
    if isinstance(module, _BatchNorm):
        return module.training or module.running_mean is None
    return bool(getattr(module, "transductive", False))


def _made(name: str, found: Any) -> Score:
    if callable(found) and not isinstance(found, nn.Module) and _needs_nothing(found):
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise SettingsError(
                f"{name}: it can be called without arguments, so it was called to make the scorer, and failed "
                f"({_said(error)})"
            ) from None
        if not callable(found):
            raise SettingsError(
                f"{name}: it can be called without arguments, so it must make a scorer, a function of a batch of "
                f"images, got {type(found).__name__}; return the function or network, or take the batch as an argument"
            )
    if not callable(found) or inspect.isclass(found):
        raise SettingsError(
            f"{name}: a scorer must be a function of a batch of images, got {short(found)}; name a function"
        )
    result: Score = found
    return result


def _needs_nothing(found: Any) -> bool:
    """Whether it takes no arguments, or none that it needs."""
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):  # a built-in does not say what it takes
        return False
    return True


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {one_line(' '.join(str(error).split()))}"
