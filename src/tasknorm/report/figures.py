"""The paper's figures, drawn from records of runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from tasknorm.evaluation import Accuracy
from tasknorm.norms import NORMS
from tasknorm.report.drawing import SERIES, STYLE, legend, look, panels
from tasknorm.report.looks import INK
from tasknorm.report.lookup import extractor_alphas
from tasknorm.report.picture_lines import smooth
from tasknorm.runs import Record

# Units of time: the shortest axis, in seconds, for which each is used; its length in seconds; its name.
UNITS = ((2 * 3600.0, 3600.0, "h"), (300.0, 60.0, "min"), (0.0, 1.0, "s"))
WIDE = 8  # ratio of the largest to the smallest loss above which the axis is logarithmic
MANY = 10  # a net with more layers than this gets a colour bar in place of a legend


def training_curves(records: Sequence[Record], by_alpha: bool = False) -> Figure:
    """Training loss and validation accuracy against iteration and against time (as in figures 4b and 4c).

    TBN, CBN and RN share a training; its loss is one curve, drawn as CBN's.

    Args:
        records: runs of one learner on one kind of task.
        by_alpha: draw one curve for each form of alpha, rather than for each norm.
    """
    validated = any(r.result["validation"]["iteration"] for r in records)
    figure, axes = panels(2, 2, 10, 6.4) if validated else panels(1, 2, 10, 3.6)
    losses, accuracies = ((axes[0], axes[2]), (axes[1], axes[3])) if validated else ((axes[0], axes[1]), ())
    unit, seconds = _unit(max(s for r in records for s in r.result["curve"]["seconds"]))
    for record in sorted(records, key=lambda r: SERIES.index(_series(r, r.settings.trained_norm, by_alpha))):
        curve, validation = record.result["curve"], record.result["validation"]
        means = {name: smooth(curve[name]) for name in ("iteration", "seconds", "loss")}
        _draw(losses, means, means["loss"], seconds, _series(record, record.settings.trained_norm, by_alpha))
        for norm, accuracy in validation["accuracy"].items():
            _draw(accuracies, validation, 100 * np.array(accuracy), seconds, _series(record, norm, by_alpha))
    tasks = {r.settings.meta_batch for r in records}
    batch = f" (of {tasks.pop()} tasks)" if len(tasks) == 1 and tasks != {1} else ""
    for pair, label in ((losses, "training loss"), (accuracies, "validation accuracy (%)")):
        for axis, below in zip(pair, (f"iteration{batch}", f"training time ({unit})"), strict=False):
            axis.set(xlabel=below, ylabel=label)
            axis.set_xlim(left=0)
            if pair is losses and np.divide(*axis.dataLim.intervaly[::-1]) > WIDE:
                axis.set_yscale("log")
                axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axis.yaxis.set_major_formatter(ScalarFormatter())
                axis.yaxis.set_minor_formatter(NullFormatter())
    legend(figure, axes, "alpha" if by_alpha else "norm")
    return figure


def _draw(axes: Sequence[Axes], at: Mapping[str, Any], values: Any, seconds: float, series: str) -> None:
    """A curve against iteration in the first panel, and against time in the second."""
    every = max(1, len(values) // 10)  # about ten markers
    for axis, x in zip(axes, (np.array(at["iteration"]), np.array(at["seconds"]) / seconds), strict=False):
        axis.plot(x, values, **look(series), markevery=every)


def accuracy_against_shot(scores: Mapping[str, Mapping[int, Accuracy]]) -> Figure:
    """Accuracy with its 95 % interval against the number of context images of each class (figure 4a).

    Args:
        scores: accuracies by norm, then by shot.
    """
    figure, (axis,) = panels(1, 1, 7, 4.2)
    for place, norm in enumerate(sorted(scores, key=SERIES.index)):
        shots = sorted(scores[norm])
        aside = 0.06 * (place - (len(scores) - 1) / 2)  # so that intervals do not hide each other
        means = [scores[norm][shot].percent for shot in shots]
        intervals = [100 * scores[norm][shot].interval for shot in shots]
        axis.errorbar([shot + aside for shot in shots], means, yerr=intervals, capsize=2.5, elinewidth=1, **look(norm))
    axis.set_xlabel("shot (context images per class)")
    axis.set_ylabel("accuracy (%), with 95 % interval")
    axis.set_xticks(sorted({shot for by_shot in scores.values() for shot in by_shot}))
    legend(figure, [axis], "norm")
    return figure


def alpha_curves(record: Record, largest: int = 500) -> Figure:
    """alpha against context size, for every layer of a run with TaskNorm (figure 3a).

    A dotted line marks the mean context size at meta-train. Channel-specific alphas are averaged over channels.
    """
    figure, (axis,) = panels(1, 1, 7, 4.2)
    sizes = np.geomspace(1, largest, 200)
    _layer_lines(figure, axis, record, sizes, lambda scale, offset: 0.5 * (1 + np.tanh((scale * sizes + offset) / 2)))
    axis.set_xscale("log")
    ticks = [size for size in (1, 2, 5, 10, 25, 50, 100, 250, 500) if size <= largest]
    axis.set_xticks(ticks, list(map(str, ticks)))
    axis.set_xticks([], minor=True)
    axis.set_ylim(-0.03, 1.03)
    axis.set_ylabel("alpha (0: the example alone, 1: the context alone)")
    return figure


def scale_offset_lines(record: Record, largest: int = 500) -> Figure:
    """SCALE |D| + OFFSET, of which alpha is the sigmoid, against context size |D|, for every layer (figure 3b)."""
    figure, (axis,) = panels(1, 1, 7, 4.2)
    sizes = np.linspace(0, largest, 101)
    _layer_lines(figure, axis, record, sizes, lambda scale, offset: scale * sizes + offset)
    axis.set_ylabel("SCALE |D| + OFFSET (alpha is its sigmoid)")
    return figure


def accuracy_by_targets(scores: Mapping[str, Mapping[str, Accuracy]]) -> Figure:
    """Accuracy with its 95 % interval for targets that arrive all at once, by example and by class.

    Args:
        scores: accuracies by norm, then by `all`, `example`, `class`.
    """
    figure, (axis,) = panels(1, 1, 7, 1.6 + 0.42 * len(scores))
    names = sorted(scores, key=SERIES.index, reverse=True)
    kinds = {"all": ("o", "#2a7fc0", 0.18), "example": ("v", "#d55e00", 0.0), "class": ("s", "#009e73", -0.18)}
    for targets, (marker, colour, shift) in kinds.items():
        there = [(place + shift, scores[n][targets]) for place, n in enumerate(names) if targets in scores[n]]
        if there:
            places, found = zip(*there, strict=True)
            words = "all at once" if targets == "all" else f"by {targets}"
            means, intervals = [s.percent for s in found], [100 * s.interval for s in found]
            axis.errorbar(means, places, xerr=intervals, fmt=marker, color=colour, capsize=2.5, label=words)
    marked = [f"{name} †" if NORMS[name].transductive else name for name in names]
    axis.set_yticks(range(len(names)), marked)
    axis.set_ylim(-0.6, len(names) - 0.4)
    axis.set_xlabel("accuracy (%), with 95 % interval; † transductive")
    axis.set_ylabel("norm")
    legend(figure, [axis], "targets")
    return figure


def _layer_lines(figure: Figure, axis: Axes, record: Record, sizes: Any, values: Any) -> None:
    """A line for each layer, coloured from the first to the last."""
    layers = extractor_alphas(record)
    colours = matplotlib.colormaps["viridis"](np.linspace(0.28, 0.88, len(layers)))
    dashes = itertools.cycle(["-", "--", "-.", ":"])
    for layer, colour, dash in zip(layers, colours, dashes, strict=False):
        scale = np.zeros(1) if layer["scale"] is None else np.atleast_1d(layer["scale"])
        lines = [values(*pair) for pair in np.broadcast(scale, np.atleast_1d(layer["offset"]))]
        axis.plot(
            sizes, np.mean(lines, axis=0) * np.ones_like(sizes), color=colour, linestyle=dash, label=layer["layer"]
        )
    if mean := record.result.get("contexts"):
        axis.axvline(mean, color="#8a8f98", linestyle=":", linewidth=1.2)
        words = f"mean at meta-train: {mean:.0f}"
        above: Any = ("data", "axes fraction")
        axis.annotate(words, (mean, 1.01), xycoords=above, ha="center", fontsize=9, color=INK)
    axis.set_xlabel("context size |D| (images)")
    if len(layers) <= MANY:
        legend(figure, [axis], "layer")
        return
    mapped = matplotlib.cm.ScalarMappable(
        matplotlib.colors.BoundaryNorm(np.arange(0.5, len(layers) + 1), len(layers)),
        matplotlib.colors.ListedColormap(colours),
    )
    with matplotlib.rc_context(STYLE):
        ticks = np.unique(np.linspace(1, len(layers), 5).round())
        figure.colorbar(mapped, ax=axis, ticks=ticks, label="layer, in the order of the network")


def _series(record: Record, norm: str, by_alpha: bool) -> str:
    return record.settings.alpha or norm if by_alpha else norm


def _unit(longest: float) -> tuple[str, float]:
    """The unit of time for an axis that ends at `longest` seconds, and its length in seconds."""
    _, seconds, unit = next(found for found in UNITS if longest >= found[0])
    return unit, seconds
