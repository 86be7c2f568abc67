"""Pictures as SVG text: scales, ticks, axes, and labels that keep out of each other's way.

A picture is drawn twice, for a wide and for a narrow place, so that its letters have the same size in both; the page's
style sheet shows the one that fits. Colours come from classes of the style sheet, so that dark pages recolour them.
"""

from __future__ import annotations

import html as entities
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tasknorm.report.looks import series_class

WIDE, NARROW = 560, 310  # widths in CSS pixels
LETTER = 0.62  # width of a letter, in font sizes, at most: labels are placed before a browser knows its font
TICK, LABEL = 11.5, 12.5  # font sizes in CSS pixels, as in the style sheet


@dataclass(frozen=True)
class Scale:
    """Where a value stands on an axis, in pixels; `log` for an axis of powers."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def inside(self, value: float) -> float:
        """Where the value stands, or the end of the axis that is nearest to it."""
        return self(min(max(value, self.low), self.high))


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from low to high, at most so many.

    >>> ticks(18.2, 97.0), ticks(0.91, 0.948, 4)
    ([20, 40, 60, 80], [0.91, 0.92, 0.93, 0.94])
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power, 20 * power) if (high - low) / step < most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    found = [round(place * step, 10) for place in range(first, last + 1)]
    return [int(value) if value == int(value) else value for value in found]


def around(
    values: Sequence[float], least: float, low: float = -math.inf, high: float = math.inf
) -> tuple[float, float]:
    """The ends of an axis that holds all values with some air, at least `least` long, within low and high."""
    bottom, top = min(values), max(values)
    air = max(0.04 * (top - bottom), (least - (top - bottom)) / 2)
    return max(low, bottom - air), min(high, top + air)


def bulk(sizes: Sequence[float], jump: float = 3.0, least: float = 1.0) -> float:
    """The largest of the sizes that belong together: what is a jump larger than the one before it is far off.

    At least half of the sizes belong together.

    >>> bulk([0.3, 2.4, 10.3, 5.6, 71.0])
    10.3
    """
    order = sorted(sizes)
    for place in range(len(order) // 2 + 1, len(order)):
        if order[place] > jump * max(order[place - 1], least):
            return order[place - 1]
    return order[-1]


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near to the wanted ones as a gap between neighbours allows, in the order of the wanted ones.

    >>> spread([10, 11, 50], 10, 0, 100)
    [5.5, 15.5, 50]
    """
    order = sorted(range(len(places)), key=lambda place: places[place])
    gap = min(gap, (high - low) / max(1, len(places) - 1))
    blocks: list[list[float]] = []  # mean of the wanted place of the first, and the number of members
    for count, place in enumerate(order):
        blocks.append([places[place] - gap * count, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    starts = [start for start, members in blocks for _ in range(int(members))]
    last = high - gap * (len(places) - 1)
    found = [0.0] * len(places)
    for count, place in enumerate(order):
        found[place] = min(max(starts[count], low), last) + gap * count
    return found


def length(text: str, size: float = LABEL) -> float:
    """The width of a text in pixels, at most."""
    return LETTER * size * len(text)


def text(x: float, y: float, words: str, kind: str = "label", anchor: str = "start") -> str:
    """A text; `kind` is a class of the style sheet."""
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}"{side}>{entities.escape(words)}</text>'


def segment(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def dot(x: float, y: float, radius: float, kind: str) -> str:
    """A circle."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{kind}"/>'


def path(points: Sequence[tuple[float, float]], kind: str, closed: bool = False) -> str:
    """A line through points."""
    joined = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{joined}{"Z" if closed else ""}" class="{kind}"/>'


def mark(norms: str, words: str, *parts: str, kind: str = "") -> str:
    """What stands for a norm in a picture: it can be pointed at and focused, and says its values.

    Args:
        norms: the norm; if it stands for several, their labels with blanks between them, in the colour of the first.
        words: the values.
        parts: SVG elements.
        kind: more classes.
    """
    known, series = entities.escape(norms), norms.split(" ")[0]
    return (
        f'<g class="mark {series_class(series)}{f" {kind}" if kind else ""}" data-norm="{known}" tabindex="0" '
        f'role="img" aria-label="{entities.escape(words)}"><title>{entities.escape(words)}</title>{"".join(parts)}</g>'
    )


def drawn(width: float, height: float, words: str, parts: Sequence[str], kind: str) -> str:
    """An SVG element with its description."""
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="group" aria-label="{entities.escape(words)}">'
        f"{''.join(parts)}</svg>"
    )


def both(draw: Callable[[float], tuple[float, Sequence[str]]], words: str, wide: float = WIDE) -> str:
    """The picture for a wide place and for a narrow one.

    Args:
        draw: takes a width, and returns the height and the parts.
        words: the description for readers who cannot see it.
        wide: width of the wide one.
    """
    made = []
    for width, kind in ((wide, "wide"), (NARROW, "narrow")):
        height, parts = draw(width)
        made.append(drawn(width, height, words, parts, kind))
    return "".join(made)


def below(scale: Scale, top: float, bottom: float, values: Sequence[float], unit: str = "") -> list[str]:
    """An axis below a picture: thin lines from top to bottom, and their values; the last with its unit."""
    parts = []
    for value in values:
        x = scale(value)
        parts.append(segment(x, top, x, bottom, "grid"))
        words = f"{value:g}{unit if value == values[-1] else ''}".replace("-", "\N{MINUS SIGN}")
        parts.append(text(x, bottom + 17, words, "tick", "middle"))
    return [_hidden(parts)]


def beside(scale: Scale, left: float, right: float, values: Sequence[float], unit: str = "") -> list[str]:
    """An axis beside a picture: thin lines from left to right, and their values; the topmost with its unit."""
    parts = []
    for value in values:
        y = scale(value)
        parts.append(segment(left, y, right, y, "grid"))
        words = f"{value:g}{unit if value == values[-1] else ''}"
        parts.append(text(left - 6, y + 4, words, "tick", "end"))
    return [_hidden(parts)]


def _hidden(parts: Sequence[str]) -> str:
    """Parts that a screen reader passes over: the marks say their values."""
    return f'<g aria-hidden="true">{"".join(parts)}</g>'
