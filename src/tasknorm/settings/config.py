"""Settings as people write them: files of them, lists by commas, and what is wrong with them in words."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from tasknorm.errors import SettingsError


def about(text: str, **bounds: Any) -> Any:
    """A setting without a value of its own: the protocol gives one, or it stays None."""
    return Field(default=None, description=text, **bounds)


def joined(value: Any) -> Any:
    """Several values as one text, joined by commas; one is itself.

    >>> joined(["omniglot", "cu_birds"]), joined((5, 20)), joined("a, b")
    ('omniglot,cu_birds', '5,20', 'a,b')
    """
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    return ",".join(str(part).strip() for part in parts)


Names = Annotated[str, BeforeValidator(joined)]


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a TOML or JSON file.

    Raises:
        SettingsError: if it is neither.
    """
    if not path.is_file():
        raise SettingsError(f"{path}: a config is a file, and there is none; correct the path")
    try:
        text = path.read_text()
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: a config is a TOML or .json file of settings, and this is not: {error}") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: a config is a table of settings, got {type(values).__name__}")
    return values


def in_words(error: Any, model: type[BaseModel]) -> str:
    """One of pydantic's complaints as a rule, the value received, and the fix."""
    name = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields)
        return f"{name} is no setting; correct its name, the settings are {known}"
    if error["type"] == "missing":
        return f"{name} is needed; set it"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} {message}, got {error['input']!r}" if name else message
