"""How matplotlib's figures look and how they are saved."""

from __future__ import annotations

import html as entities
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from tasknorm.report.looks import ALPHAS, INK, LOOKS, recoloured

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#8a8f98",
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "tasknorm",
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}
SERIES = [*LOOKS, *ALPHAS]


@dataclass(frozen=True)
class Picture:
    """A figure with its name, its title, and a description in words for readers who cannot see it."""

    name: str
    title: str
    words: str
    figure: Figure


def look(series: str) -> dict[str, Any]:
    """Matplotlib's options for the line of a norm, or of a form of alpha."""
    colour, _, dash, marker = (LOOKS | ALPHAS)[series]
    thick = series in ("TaskNorm-I", "TBN", "functional-shared")
    return {
        "color": colour,
        "linestyle": dash,
        "marker": marker,
        "markersize": 7 if marker == "*" else 4.5,
        "linewidth": 2.0 if thick else 1.4,
        "label": series,
    }


def panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """An empty figure of `rows` times `columns` panels, row by row; width and height in inches."""
    with matplotlib.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.09)
        figure = Figure(figsize=(width, height), layout=layout)
        axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def legend(figure: Figure, axes: Sequence[Axes], title: str = "") -> None:
    """One legend for all panels, at the right, in the order of `LOOKS`."""
    handles = {label: handle for a in axes for handle, label in zip(*a.get_legend_handles_labels(), strict=True)}
    order = sorted(handles, key=lambda name: SERIES.index(name) if name in SERIES else len(SERIES))
    with matplotlib.rc_context(STYLE):
        figure.legend([handles[n] for n in order], order, loc="outside right upper", title=title, handlelength=3.2)


def saved(picture: Picture, folder: Path) -> list[Path]:
    """Write the figure as SVG and as PNG; returns both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    _arranged(picture.figure)
    paths = [folder / f"{picture.name}.svg", folder / f"{picture.name}.png"]
    with matplotlib.rc_context(STYLE):
        picture.figure.savefig(paths[0], metadata={"Date": None}, facecolor="white")
        picture.figure.savefig(paths[1], dpi=160, facecolor="white", metadata={"Software": None})
    return paths


def inline_svg(picture: Picture) -> str:
    """The figure as an SVG element for a page: with real text, in the page's colours, and with a description."""
    _arranged(picture.figure)
    stream = io.StringIO()
    with matplotlib.rc_context(STYLE | {"svg.fonttype": "none"}):
        picture.figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    text = stream.getvalue()
    text = recoloured(text[text.index("<svg") :])
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"(\bid=\"|url\(#|href=\"#)", rf"\g<1>{picture.name}-", text)  # ids must be unique on a page
    words, inches = entities.escape(picture.words), picture.figure.get_figwidth()
    return text.replace("<svg ", f'<svg role="img" aria-label="{words}" style="--inches:{inches:g}" ', 1)


def _arranged(figure: Figure) -> None:
    """Lay out the figure with room for all labels, only once: the layout takes as long as drawing."""
    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
