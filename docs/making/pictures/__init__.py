"""The drawings of the concepts: each a function that returns an SVG, kept in docs/pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from making.pictures.concepts import phases, task
from making.pictures.moments import moments_figure, moments_picture
from making.pictures.plots import alpha, demo, running, transduction

FOLDER = Path(__file__).parents[2] / "pictures"
PICTURES: dict[str, Callable[[], str]] = {
    "alpha": alpha,
    "demo": demo,
    "moments": moments_picture,
    "phases": phases,
    "running": running,
    "task": task,
    "transduction": transduction,
}

__all__ = ["FOLDER", "PICTURES", "moments_figure"]
