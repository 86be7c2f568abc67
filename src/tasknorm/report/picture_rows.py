"""Pictures with one norm in each row: accuracies with their intervals, and differences from the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasknorm.evaluation import Accuracy
from tasknorm.report.svg import (
    NARROW,
    TICK,
    Scale,
    around,
    below,
    both,
    bulk,
    dot,
    length,
    mark,
    path,
    segment,
    text,
    ticks,
)

HERO = 720  # width of the first picture, in a wide place
NAMES, VALUES = 106, 92  # width of the columns of names and values, in a wide place


@dataclass(frozen=True)
class Row:
    """A norm in a picture.

    Attributes:
        score: its accuracy, or its difference from the best.
        seeds: the same for each seed, as shares.
        alone: its accuracy if targets arrive one by one, for a norm whose accuracy depends on that.
        together: whether it cannot be told apart from the best.
    """

    norm: str
    score: Accuracy
    seeds: Sequence[float] = ()
    alone: Accuracy | None = None
    together: bool = False

    def ends(self) -> tuple[float, float]:
        """The ends of its interval in percent."""
        half = 100 * self.score.interval
        return self.score.percent - half, self.score.percent + half


def accuracies(rows: Sequence[Row], chance: float | None, words: str) -> str:
    """Norms by accuracy with intervals; transductive ones are hollow, and an arrow shows how far they fall.

    Args:
        rows: the best first.
        chance: accuracy of guessing, in percent, if it is the same for all tasks.
        words: the description for readers who cannot see it.
    """
    points = [p for row in rows for p in (*row.ends(), *(100 * s for s in row.seeds))]
    points += [row.alone.percent for row in rows if row.alone]
    low, high = around([min(max(p, 0.0), 100.0) for p in points], 8, 0, 100)
    guess = chance if chance is not None and low - 0.15 * (high - low) < chance < high else None
    if guess is not None:
        low = max(0.0, min(low, guess - 0.03 * (high - low)))

    def draw(width: float) -> tuple[float, Sequence[str]]:
        page = _Page(width, len(rows), Scale(low, high, 0, 1), top=22, step=40)
        parts = page.back(rows, ticks(low, high, 8 if width > NARROW else 5), " %")
        if guess is not None:
            parts.append(segment(page.x(guess), page.top, page.x(guess), page.bottom, "chance"))
            parts.append(_near(page, page.x(guess), page.top - 7, f"chance {guess:g} %"))
        for place, row in enumerate(rows):
            parts.append(page.row(place, row, f"{row.score}", _fall(page, page.y(place), row)))
        return page.height, parts

    return both(draw, words, HERO)


def differences(rows: Sequence[Row], words: str) -> str:
    """Differences from the best with their intervals, in percentage points; what is far off points to the left.

    Args:
        rows: the best first, whose difference is 0.
        words: the description for readers who cannot see it.
    """
    far = bulk([abs(row.score.percent) for row in rows])
    near = [row for row in rows if abs(row.score.percent) <= far]
    edge = 2 * max(far, 1.0)  # a wide interval is cut off rather than all others made small
    low, high = around([0.0, *(min(max(end, -edge), edge) for row in near for end in row.ends())], 2)

    def draw(width: float) -> tuple[float, Sequence[str]]:
        page = _Page(width, len(rows), Scale(low, high, 0, 1), top=8, step=min(max(364 / len(rows), 28), 46))
        parts = page.back(rows, ticks(low, high, 7 if width > NARROW else 5), "")
        parts.append(segment(page.x(0), page.top, page.x(0), page.bottom, "zero"))
        for place, row in enumerate(rows):
            said = "the best" if place == 0 else row.score.points
            said = said.replace("-", "\N{MINUS SIGN}")
            parts.append(page.row(place, row, said, [], off=row not in near))
        return page.height, parts

    return both(draw, words)


class _Page:
    """The places of rows: names beside them where it is wide, above them where it is narrow."""

    def __init__(self, width: float, rows: int, share: Scale, top: float, step: float) -> None:
        self.wide, self.width, self.top = width > NARROW, width, top
        self.step = step if self.wide else 46
        left, right = (NAMES, width - VALUES) if self.wide else (20, width - 24)
        self.x = Scale(share.low, share.high, left, right)
        self.bottom = top + self.step * rows
        self.height = self.bottom + 26

    def y(self, place: int) -> float:
        return self.top + self.step * (place + (0.5 if self.wide else 0.68))

    def back(self, rows: Sequence[Row], values: Sequence[float], unit: str) -> list[str]:
        """Shades behind the rows that cannot be told apart from the best, and the axis."""
        shades = [
            f'<rect x="0" y="{self.top + self.step * place:.1f}" width="{self.width:g}" height="{self.step:.1f}" '
            'class="together"/>'
            for place, row in enumerate(rows)
            if row.together
        ]
        return [*shades, *below(self.x, self.top, self.bottom, values, unit)]

    def row(self, place: int, row: Row, said: str, fall: Sequence[str], off: bool = False) -> str:
        """A norm's mark: its name, interval, seeds, mean and value."""
        y = self.y(place)
        at = y + 4.5 if self.wide else y - 15
        hollow = " hollow" if row.alone else ""
        parts = [
            f'<rect x="0" y="{self.top + self.step * place:.1f}" width="{self.width:g}" height="{self.step:.1f}" '
            'class="hit"/>',
            text(2 if self.wide else 10, at, row.norm, "name strong" if row.together else "name"),
            text(self.width - (2 if self.wide else 10), at, said, "value", "end"),
            *fall,
        ]
        if off:
            x = self.x.start + 2
            parts.append(path([(x, y), (x + 9, y - 5), (x + 9, y + 5)], "solid", closed=True))
            parts.append(segment(x + 9, y, x + 34, y, "interval"))
        else:
            low, high = (self.x.inside(end) for end in row.ends())
            parts.append(segment(low, y, high, y, "interval"))
            parts += [segment(self.x(100 * s), y - 7, self.x(100 * s), y + 7, "seed") for s in row.seeds]
            parts.append(dot(self.x(row.score.percent), y, 4.5, f"solid{hollow}"))
        words = f"{row.norm}: {said}" + (f", {row.alone} one by one, transductive" if row.alone else "")
        return mark(row.norm, words, *parts, kind="shaded" if row.together else "")


def _fall(page: _Page, y: float, row: Row) -> list[str]:
    """An arrow from the accuracy with all targets at once to that of one by one, with its length in points."""
    if row.alone is None or row.alone.mean >= row.score.mean:
        return []
    start, end = page.x(row.score.percent) - 5, page.x(row.alone.percent)
    if start - end < 8:
        return []
    points = row.score.percent - row.alone.percent
    said = f"\N{MINUS SIGN}{points:.0f} points one by one"
    inside = start - end > length(said, TICK) + 20
    x = (start + end) / 2 if inside else end - 8
    fits = inside or x - length(said, TICK) > page.x.start
    parts = [
        segment(start, y, end + 7, y, "fall"),
        path([(end, y), (end + 9, y - 4.5), (end + 9, y + 4.5)], "solid", closed=True),
    ]
    if fits:
        parts.append(text(x, y - 7 if inside else y + 4, said, "tick strong", "middle" if inside else "end"))
    return parts


def _near(page: _Page, x: float, y: float, words: str) -> str:
    """A text centred at x, if it is not too near to an edge."""
    half = length(words, TICK) / 2
    return text(min(max(x, half), page.width - half), y, words, "tick", "middle")
