"""Config files, lists separated by commas, and error messages for settings."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from tasknorm.errors import SettingsError, at, one_line, reason, short
from tasknorm.machine import LARGEST_TEXT, parsed_json, read_regular

ALIKE = 0.6  # share of letters that a name and what was typed must have in common for it to be suggested


def about(text: str, **bounds: Any) -> Any:
    """A field for a setting that is None unless it is given or the papers prescribe a value."""
    return Field(default=None, description=text, **bounds)


def joined(value: Any) -> Any:
    """One or several values as one string, separated by commas.

    >>> joined(["omniglot", "cu_birds"]), joined((5, 20)), joined("a, b")
    ('omniglot,cu_birds', '5,20', 'a,b')
    """
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    return ",".join(str(part).strip() for part in parts)


Names = Annotated[str, BeforeValidator(joined)]
Fold = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,3}/[1-9][0-9]{0,3}$")]
SCALE = (
    "How pixels are scaled: to [0, 1] (unit), to [-1, 1] (signed), by ImageNet's mean and deviation (standard), or by "
    "(x - 127) / 128 of bytes (centred), as EfficientNet-Lite's weights want it."
)
RESIZE = (
    "How images are brought to their size; crop cuts out the centre square, the others stretch. Default: the rule of "
    "the source."
)
FOLD = "Test on this fold of the classes and train on the others, such as 2/5. Default: the source's own splits."


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a TOML or JSON file.

    Raises:
        SettingsError: if the file does not exist, is not valid TOML or JSON, holds no table of settings, or a number
            that is not finite; names the file and the place.
    """
    if not path.exists():
        raise SettingsError(f"config file not found: '{at(path)}'; correct the path")
    try:
        text = read_regular(path, LARGEST_TEXT)
        values = parsed_json(text) if path.suffix == ".json" else _parsed_toml(text)
    except OSError as error:
        raise SettingsError(f"{at(path)}: the config file cannot be read ({reason(error)}); correct the path") from None
    except ValueError as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise SettingsError(f"{at(path)}: not a valid {kind} file: {reason(error)}; correct it") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{at(path)}: a config file must hold a table of settings, got {short(values)}; correct it")
    return values


def _parsed_toml(text: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode(), parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"numbers must be finite, got {text[:40]}")
    return value


def in_words(error: Any, fields: Mapping[str, Any]) -> str:
    """One of pydantic's errors as a sentence: the rule, then the value received.

    Args:
        error: an entry of `ValidationError.errors()`.
        fields: all known settings by name.
    """
    name = one_line(".".join(map(str, error["loc"])))
    if error["type"] == "extra_forbidden":
        return f"unknown setting {short(name)}; {meant(name, list(fields))}"
    if error["type"] == "missing":
        return f"{name} is missing; set it"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} {message}, got {short(error['input'])}" if name else message


def choice_error(value: str, choices: Sequence[str], more: str = "") -> ValueError:
    """The error for a value that is not one of the choices, with the most similar choices as a hint.

    Args:
        value: what was given.
        choices: all names that it could be.
        more: what else it could be, in words.
    """
    nearest = similar(value, choices)
    hint = f" (did you mean {nearest}?)" if nearest else ""
    return ValueError(f"must be one of {', '.join(choices)}{more}{hint}")


def meant(name: str, known: Sequence[str]) -> str:
    """A hint: the most similar known names, or all known names if none is similar.

    >>> meant("lerning_rate", ["learning_rate", "way"]), meant("x", ["learning_rate", "way"])
    ("did you mean 'learning_rate'?", 'known: learning_rate, way')
    """
    nearest = similar(name, known)
    return f"did you mean {nearest}?" if nearest else f"known: {', '.join(known)}"


def similar(name: str, known: Sequence[str]) -> str:
    """The known names that are most similar, in quotes; upper and lower case count as the same.

    >>> similar("tasknorm-i", ["TaskNorm-r", "TaskNorm-I"]), similar("TaskNorm", ["TaskNorm-r", "TaskNorm-I"])
    ("'TaskNorm-I'", "'TaskNorm-r' or 'TaskNorm-I'")
    """
    alike = {choice: SequenceMatcher(None, choice.casefold(), name.casefold()).ratio() for choice in known}
    best = max(alike.values(), default=0.0)
    nearest = [repr(choice) for choice, ratio in alike.items() if ratio == best] if best >= ALIKE else []
    return " or ".join(filter(None, [", ".join(nearest[:-1]), *nearest[-1:]]))
