"""Pictures with two axes: learning curves, cost against accuracy, and alpha against context size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from tasknorm.evaluation import Accuracy
from tasknorm.report.svg import (
    LABEL,
    NARROW,
    Scale,
    around,
    below,
    beside,
    both,
    bulk,
    dot,
    length,
    mark,
    path,
    segment,
    spread,
    text,
    ticks,
)

GAP = 15  # least distance of two labels, one above the other
LEFT = 46  # width of the labels of the axis beside a picture
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)  # of contexts


@dataclass(frozen=True)
class Curve:
    """The curve of a training: accuracies in percent, as the mean over seeds and the ends of their band."""

    iterations: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]

    def at(self, iteration: float) -> float:
        """The mean at an iteration."""
        return self.mean[self.iterations.index(iteration)]


@dataclass(frozen=True)
class Alphas:
    """What a norm's alpha learned: scales and offsets by layer, one of each seed; the context size in training."""

    layers: Mapping[str, Sequence[tuple[float, float]]]
    contexts: float

    def at(self, layer: str, size: float) -> float:
        """alpha of a layer for a context of this size, as the mean over seeds."""
        values = [0.5 * (1 + math.tanh((scale * size + offset) / 2)) for scale, offset in self.layers[layer]]
        return sum(values) / len(values)


def smooth(values: Sequence[float], most: int = 25) -> list[float]:
    """Means over at most so many windows of equal length; the last may be shorter.

    >>> smooth([1, 3, 5, 7, 8], 3)
    [2.0, 6.0, 8.0]
    """
    size = -(-len(values) // most)
    return [fmean(values[start : start + size]) for start in range(0, len(values), size)]


def learning(curves: Mapping[tuple[str, ...], Curve], words: str) -> str:
    """Training accuracy against iteration; a line for each training, and a band over its seeds.

    Args:
        curves: by the norms that a training serves, the one that names it first.
        words: the description for readers who cannot see it.
    """
    low, high = around([v for c in curves.values() for v in (*c.low, *c.high)], 8, 0, 100)
    last = max(c.iterations[-1] for c in curves.values())

    def draw(width: float) -> tuple[float, Sequence[str]]:
        height = 400.0 if width > NARROW else 360.0
        right = width - 22 - max(length(", ".join(names), LABEL + 0.5) for names in curves)
        x, y = Scale(0, last, LEFT, right), Scale(low, high, height - 44, 12)
        parts = beside(y, LEFT, right, ticks(low, high), " %")
        parts += below(x, height - 44, height - 44, ticks(0, last, 5 if width > NARROW else 4))
        parts.append(text((LEFT + right) / 2, height - 8, "training iteration", "tick", "middle"))
        ends = [y(curve.mean[-1]) for curve in curves.values()]
        labels = spread(ends, GAP, 14, height - 48)
        for (names, curve), end, at in zip(curves.items(), ends, labels, strict=True):
            middle, top, bottom = (
                [(x(i), y(v)) for i, v in zip(curve.iterations, values, strict=True)]
                for values in (curve.mean, curve.high, curve.low)
            )
            said = f"{', '.join(names)}: {curve.mean[-1]:.1f} % on the last training tasks"
            parts.append(
                mark(
                    " ".join(names),
                    said,
                    path([*top, *bottom[::-1]], "band", closed=True),
                    path(middle, "hit-line"),
                    path(middle, "line"),
                    segment(x(curve.iterations[-1]) + 3, end, right + 14, at, "leader"),
                    dot(x(curve.iterations[-1]), end, 3, "solid"),
                    text(right + 17, at + 4, ", ".join(names), "name"),
                )
            )
        return height, parts

    return both(draw, words)


def cost(points: Mapping[str, tuple[float, Accuracy]], transductive: Sequence[str], axis: str, words: str) -> str:
    """Accuracy against what a norm costs.

    Args:
        points: the cost and the accuracy of each norm.
        transductive: norms that are drawn hollow.
        axis: what the cost is, with its unit.
        words: the description for readers who cannot see it.
    """
    top = max(a.percent for _, a in points.values())
    lowest = top - bulk([top - a.percent for _, a in points.values()])
    low, high = around([lowest, top], 6, 0, 100)
    left, most = around([c for c, _ in points.values()], 0.2 * max(c for c, _ in points.values()), 0)

    def draw(width: float) -> tuple[float, Sequence[str]]:
        height = 400.0 if width > NARROW else 360.0
        x, y = Scale(left, most, LEFT + 16, width - 24), Scale(low, high, height - 70, 24)
        parts = beside(y, LEFT, width, ticks(low, high), " %")
        parts += below(x, height - 44, height - 44, ticks(left, most, 5))
        parts.append(text((LEFT + width) / 2, height - 8, axis, "tick", "middle"))
        off = {name: f"{name} {a.percent:.0f} %" for name, (_, a) in points.items() if a.percent < lowest}
        places = {n: (x(c), height - 54 if n in off else y(a.percent)) for n, (c, a) in points.items()}
        labels = _beside_dots(places, {name: off.get(name, name) for name in places}, (LEFT, 8, width, height - 42))
        for name, (at, anchor) in labels.items():
            (here, there), (c, a) = places[name], points[name]
            far = math.dist((at[0], at[1] - 4), (here, there)) > 22
            drawn = [segment(here, there, at[0] + {"start": -2, "end": 2}.get(anchor, 0), at[1] - 4, "leader")] * far
            if name in off:
                triangle = [(here, there + 6), (here - 5, there - 3), (here + 5, there - 3)]
                drawn.append(path(triangle, "solid", closed=True))
            else:
                ends = (y.inside(a.percent + 100 * side * a.interval) for side in (-1, 1))
                drawn.append(segment(here, next(ends), here, next(ends), "interval thin"))
                drawn.append(dot(here, there, 4.5, "solid hollow" if name in transductive else "solid"))
            said = f"{name}: {a} %, {c:.3g} {axis}"
            parts.append(mark(name, said, *drawn, text(*at, off.get(name, name), "name", anchor)))
        return height, parts

    return both(draw, words)


def alphas(norms: Mapping[str, Alphas], words: str) -> str:
    """alpha against context size: a panel for each norm, a line for each layer, the first the lightest."""

    def draw(width: float) -> tuple[float, Sequence[str]]:
        columns = len(norms) if width > NARROW else 1
        panel, tall = width / columns, 400.0 if width > NARROW else 300.0
        parts: list[str] = []
        for place, (norm, found) in enumerate(norms.items()):
            left, top = (place % columns) * panel, (place // columns) * tall
            parts += _panel(norm, found, left, top, panel, tall)
        return tall * -(-len(norms) // columns), parts

    return both(draw, words)


def _panel(norm: str, found: Alphas, left: float, top: float, width: float, height: float) -> list[str]:
    start, right, bottom = left + 34, left + width - 62, top + height - 44
    x, y = Scale(1, SIZES[-1], start, right, log=True), Scale(0, 1, bottom, top + 44)
    shown = SIZES if width > 320 else SIZES[::3]
    parts = [text(start, top + 14, norm, "name strong"), *beside(y, start, right, ticks(0, 1, 5))]
    parts += below(x, bottom, bottom, shown)
    parts.append(text((start + right) / 2, top + height - 8, "context size (images)", "tick", "middle"))
    if 1 <= found.contexts <= SIZES[-1]:
        here = x(found.contexts)
        half = length(f"in training: {found.contexts:.0f}", 11.5) / 2
        parts.append(segment(here, top + 40, here, bottom, "chance"))
        at = min(max(here, left + half), right + 60 - half)
        parts.append(text(at, top + 34, f"in training: {found.contexts:.0f}", "tick", "middle"))
    names = list(found.layers)
    labelled = names if len(names) <= 8 else [names[0], names[-1]]
    places = spread([y(found.at(name, SIZES[-1])) for name in labelled], GAP, top + 46, bottom - 2)
    sizes = [SIZES[-1] ** (step / 60) for step in range(61)]
    drawn = []
    for number, name in enumerate(names):
        strength = 0.35 + 0.65 * (number + 1) / len(names)
        line = path([(x(size), y(found.at(name, size))) for size in sizes], "line")
        drawn.append(f'<g style="opacity:{strength:.2f}">{line}</g>')
    for name, at in zip(labelled, places, strict=True):
        number = names.index(name) + 1
        drawn.append(segment(right + 2, y(found.at(name, SIZES[-1])), right + 10, at, "leader"))
        drawn.append(text(right + 13, at + 4, f"layer {number}", "tick"))
    low, high = (f(found.at(name, found.contexts) for name in names) for f in (min, max))
    said = f"{norm}: alpha from {low:.2f} to {high:.2f} with {found.contexts:.0f} context images, by layer"
    return [*parts, mark(norm, said, *drawn)]


Box = tuple[float, float, float, float]
Place = tuple[tuple[float, float], str]


def _beside_dots(places: Mapping[str, tuple[float, float]], labels: Mapping[str, str], inside: Box) -> dict[str, Place]:
    """Where the label of each dot goes: the nearest place that hides no dot and no other label."""
    taken: list[Box] = [(x - 7, y - 7, x + 7, y + 7) for x, y in places.values()]
    found: dict[str, Place] = {}
    for name, (x, y) in sorted(places.items(), key=lambda item: item[1][1]):
        wide = length(labels[name], LABEL + 0.5)
        tried: list[tuple[float, Place, Box]] = []
        for away in (0.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0):
            for angle in range(0, 360, 30):
                dx, dy = math.cos(math.radians(angle)), math.sin(math.radians(angle))
                cx, cy = x + (11 + away) * dx, y + (13 + away) * dy
                anchor = "start" if dx > 0.3 else "end" if dx < -0.3 else "middle"
                first = cx - {"start": 0, "end": wide, "middle": wide / 2}[anchor]
                box = (first, cy - 8, first + wide, cy + 8)
                clash = sum(_overlap(box, other) for other in taken) + _outside(box, inside)
                tried.append((1000 * clash + away + 12 * (1 - dx), ((cx, cy + 4), anchor), box))
        _, found[name], box = min(tried, key=lambda option: option[0])
        taken.append(box)
    return found


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _outside(box: Box, inside: Box) -> float:
    return (sum(max(0.0, inside[k] - box[k]) for k in (0, 1)) + sum(max(0.0, box[k] - inside[k]) for k in (2, 3))) * 10
