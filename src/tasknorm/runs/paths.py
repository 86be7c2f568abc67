"""Paths in a run's settings, made absolute, so that its folder can be used from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasknorm.data import data_folder, found

SOURCES = ("source", "validation_sources", "test_sources")
HF = "hf:"  # before the folder of a network of transformers
PATH = "folder:"  # before the path of a source


def with_absolute_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings whose sources and pretrained weights are found from any folder; the names of data sets stay.

    A path with a comma stays as it is, since commas separate sources.
    """
    made = dict(values)
    for key in SOURCES:
        if isinstance(made.get(key), str):
            made[key] = ",".join(_absolute(source.strip()) for source in made[key].split(","))
        elif isinstance(made.get(key), list):
            made[key] = [_absolute(source) if isinstance(source, str) else source for source in made[key]]
    if isinstance(made.get("pretrained"), str):
        made["pretrained"] = str(Path(made["pretrained"]).absolute())
    if isinstance(made.get("net"), str) and made["net"].startswith(HF) and Path(made["net"].removeprefix(HF)).is_dir():
        made["net"] = HF + str(Path(made["net"].removeprefix(HF)).absolute())
    return made


def _absolute(source: str) -> str:
    path = Path(source.removeprefix(PATH))
    is_path = source.startswith(PATH) or (path.exists() and source != "glyphs" and not found(source, data_folder()))
    if path.is_absolute() or not is_path or "," in str(path.absolute()):
        return source
    return f"{PATH}{path.absolute()}"
