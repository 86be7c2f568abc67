"""The page of a comparison: the answer and one picture first, then curves, costs, differences, and how it was made."""

from __future__ import annotations

import html as entities
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from tasknorm.durations import in_hours
from tasknorm.episode import TARGETS
from tasknorm.evaluation import Accuracy
from tasknorm.files import write_atomically
from tasknorm.report import html_table, picture_lines, picture_rows
from tasknorm.report.comparison import Comparison
from tasknorm.report.how_made import how_made
from tasknorm.report.looks import series_class
from tasknorm.report.lookup import extractor_alphas
from tasknorm.report.page import anchor, document
from tasknorm.report.picture_lines import SIZES, Alphas, Curve, smooth
from tasknorm.report.picture_rows import Row
from tasknorm.report.render import Table, line

SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
MINUS = "\N{MINUS SIGN}"

SHARED = (
    " TBN, CBN and RN share a training, which normalises each set by itself, as TBN does; how well they do at test is "
    "above."
)


def write_page(path: Path, comparisons: Sequence[Comparison]) -> None:
    """Write the page of one or more comparisons, one for each learner."""
    write_atomically(path, html(comparisons).encode())


def html(comparisons: Sequence[Comparison]) -> str:
    """The page of one or more comparisons of norms, one for each learner.

    It needs nothing but itself: style, script and pictures are inside.
    """
    parts = [_Part(comparison) for comparison in comparisons]
    norms = list(dict.fromkeys(norm for c in comparisons for norm in c.norms))
    peeking = {norm for c in comparisons for norm in c.transductive}
    body = [*(part.answer() for part in parts), _chooser(norms, peeking)]
    body += [part.details(named=len(parts) > 1) for part in parts]
    body.append(how_made(comparisons))
    links = [(part.key, part.found.learner) for part in parts] if len(parts) > 1 else []
    links += [(f"{parts[0].key}-details", "Details"), ("made", "How this was made")]
    title = f"Norms compared: {'; '.join(c.title for c in comparisons)}"
    return document(title, "tasknorm compare", links, "".join(body))


class _Part:
    """What the page says of one comparison."""

    def __init__(self, comparison: Comparison) -> None:
        self.found = found = comparison
        self.key = anchor(found.title)
        self.order = sorted(found.norms, key=lambda norm: -min(found.accuracy(norm, come).mean for come in TARGETS))
        self.several = len(found.rounds) > 1
        self.rounds = f"{len(found.rounds)} {found.round_name}{'s' * self.several}"

    def answer(self) -> str:
        """The verdict beside the picture of accuracies."""
        said = self.found.verdict()
        first, *rest = SENTENCE.split(said[0], maxsplit=1) if said else [""]
        more = "".join(f"<p>{_prose(paragraph)}</p>" for paragraph in (*rest, *said[1:]))
        return f"""<section class="answer" id="{self.key}" aria-labelledby="{self.key}-said">
<div class="said"><p class="kicker">{entities.escape(self.found.title)}</p>
<h2 class="headline" id="{self.key}-said">{_prose(first)}</h2></div>
<figure class="picture">{self._accuracies()}
<p class="notes">{self._legend()}</p></figure>
<div class="more">{more}</div>
</section>
"""

    def details(self, named: bool) -> str:
        """The other pictures, each with its numbers as a table, and the table of all accuracies."""
        heading = f"<h2>{entities.escape(self.found.title)}</h2>\n" if named else ""
        table = html_table.html(replace(self.found.table(), name=f"{self.key}-table"))
        pictures = [self._differences(), self._learning(), self._cost(), self._alphas()]
        return (
            f'<section id="{self.key}-details">{heading}<div class="grid">{"".join(pictures)}'
            f'<div class="across">{table}</div></div></section>\n'
        )

    def _together(self, norm: str) -> bool:
        return self.several and norm in self.found.best

    def _alone(self, norm: str) -> Accuracy | None:
        return self.found.accuracy(norm, "example") if norm in self.found.transductive else None

    def _accuracies(self) -> str:
        found, settings = self.found, self.found.settings
        rows = [
            Row(
                norm,
                found.accuracy(norm, "all"),
                found.by_seed(norm, "all") if self.several else (),
                self._alone(norm),
                self._together(norm),
            )
            for norm in self.order
        ]
        chance = 100 / settings.way if settings.sampling == "fixed" and settings.way else None
        words = "; ".join(f"{row.norm} {row.score} %" for row in rows)
        return picture_rows.accuracies(rows, chance, f"Accuracy by norm: {words}.")

    def _legend(self) -> str:
        name = self.found.round_name
        if self.several:
            said = f"Dot: mean over {self.rounds}; bar: 95 % interval; ticks: the {name}s."
        else:
            said = f"Dot: mean of one {name}; bar: 95 % interval over its test tasks only."
        if self.found.transductive:
            said += " Hollow: transductive, it peeks at other targets; the arrow ends where targets arrive one by one."
        if self.several and self.found.best:
            said += f" Shaded: cannot be told from {self.found.reference}, the best that does not peek."
        return entities.escape(said)

    def _figure(self, name: str, title: str, words: str, picture: str, table: Table) -> str:
        behind = f"<details><summary>As a table</summary>{html_table.html(table)}</details>"
        return (
            f'<figure id="{self.key}-{name}"><figcaption>{entities.escape(title)}</figcaption>'
            f'<p>{entities.escape(words)}</p><div class="picture">{picture}</div>{behind}</figure>\n'
        )

    def _from_best(self, norm: str) -> str:
        if norm == self.found.reference:
            return "the best"
        return self.found.difference(norm).points.replace("-", MINUS)

    def _differences(self) -> str:
        found, best = self.found, self.found.reference
        if len(found.norms) < 2:
            return ""
        order = [best, *(norm for norm in self.order if norm != best)]
        rows = [Row(n, found.difference(n), (), self._alone(n), self._together(n)) for n in order]
        words = "; ".join(f"{norm} {self._from_best(norm)}" for norm in order)
        picture = picture_rows.differences(rows, f"Differences from the best, in percentage points: {words}.")
        sure = (
            f"All norms of a {found.round_name} meet the same tasks, so that differences are surer than accuracies."
            if self.several
            else "The intervals are of test tasks only: more seeds are needed to tell norms apart."
        )
        said = f"Difference from {best}, in percentage points. {sure} A triangle points to what is off the scale."
        known = {True: "yes", False: "no", None: "unknown"}
        lines = (line([n, self._from_best(n), "" if n == best else known[found.separated(n)]]) for n in order)
        headings = ("norm", "difference in points", "separated at 95 %")
        table = Table(f"{self.key}-differences-table", f"Differences from {best}", headings, tuple(lines))
        return self._figure("differences", "How sure is that?", said, picture, table)

    def _cost(self) -> str:
        found = self.found
        points = {norm: (found.cost(norm).task, found.accuracy(norm, "all")) for norm in self.order}
        words = "; ".join(f"{norm} {ms:.1f} ms, {accuracy} %" for norm, (ms, accuracy) in points.items())
        axis = "ms to adapt to a task and predict"
        picture = picture_lines.cost(points, found.transductive, axis, f"Cost against accuracy: {words}.")
        lines = (
            line([norm, f"{ms:.1f}", in_hours(found.cost(norm).training), str(accuracy)])
            for norm, (ms, accuracy) in points.items()
        )
        headings = ("norm", "ms / task", "training", "accuracy in %")
        table = Table(f"{self.key}-cost-table", "Cost and accuracy", headings, tuple(lines))
        said = "Higher is more accurate, further left is cheaper: what a task takes one thread, at meta-test."
        return self._figure("cost", "What does it cost?", said, picture, table)

    def _learning(self) -> str:
        found: dict[tuple[str, ...], Curve] = {}
        for first in self.found.rounds[0]:
            names = tuple(norm for norm in self.order if norm in first.settings.tested_norms)
            if names and (curve := _curve(self.found.curves(names[0]))):
                found[names] = curve
        if not found:
            return ""
        curves = dict(sorted(found.items(), key=lambda item: -item[1].mean[-1]))
        ends = "; ".join(f"{', '.join(names)} {curve.mean[-1]:.1f} %" for names, curve in curves.items())
        picture = picture_lines.learning(curves, f"Accuracy on the last training tasks: {ends}.")
        longest = max(curves.values(), key=lambda curve: len(curve.iterations)).iterations
        shown = longest[-1 :: -max(1, len(longest) // 5)][::-1]
        lines = (
            line([", ".join(names), *(f"{curve.at(i):.1f}" if i in curve.iterations else "" for i in shown)])
            for names, curve in curves.items()
        )
        headings = ("norm", *(f"{i:,.0f}" for i in shown))
        table = Table(f"{self.key}-learning-table", "Training accuracy in %, by iteration", headings, tuple(lines))
        band = f", as the mean over {self.rounds} and the band from the lowest to the highest" if self.several else ""
        shared = SHARED if any(len(names) > 1 for names in curves) else ""
        said = f"Accuracy on training tasks{band}.{shared}"
        return self._figure("learning", "How fast do they learn?", said, picture, table)

    def _alphas(self) -> str:
        norms: dict[str, Alphas] = {}
        for norm in self.order:
            records = [
                r for each in self.found.rounds for r in each if r.settings.norm == norm and r.settings.iterations
            ]
            layers: dict[str, list[tuple[float, float]]] = {}
            for record in records:
                for layer in extractor_alphas(record):
                    layers.setdefault(layer["layer"], []).extend(_pairs(layer))
            if layers:
                norms[norm] = Alphas(layers, sum(r.result["contexts"] for r in records) / len(records))
        if not norms:
            return ""
        words = (
            "How much the context counts when an example is normalised: 1 is the context alone, 0 the example alone. "
            "A line for each layer. Far from the context size in training, it is extrapolated."
        )
        lines = tuple(
            line([f"{norm}, {layer}", *(f"{found.at(layer, size):.2f}" for size in SIZES)])
            for norm, found in norms.items()
            for layer in found.layers
        )
        headings = ("layer", *(f"{size} images" for size in SIZES))
        table = Table(f"{self.key}-alpha", "alpha by context size", headings, lines)
        return self._figure("alphas", "What did TaskNorm learn?", words, picture_lines.alphas(norms, words), table)


def _pairs(layer: dict[str, Any]) -> list[tuple[float, float]]:
    """Scale and offset of a layer, for each channel if they differ by channel."""
    scales, offsets = (v if isinstance(v, list) else [v] for v in (layer["scale"] or 0.0, layer["offset"]))
    most = max(len(scales), len(offsets))
    return [(scales[k % len(scales)], offsets[k % len(offsets)]) for k in range(most)]


def _curve(rounds: Sequence[dict[str, Any]]) -> Curve | None:
    """The curve of a training over the iterations that it has with every seed; None if there are none."""
    found = [each["training"] for each in rounds]
    count = min(len(curve["iteration"]) for curve in found)
    if not count:
        return None
    seeds = [[100 * value for value in smooth(curve["accuracy"][:count])] for curve in found]
    values = list(zip(*seeds, strict=True))
    means = [fmean(v) for v in values]
    return Curve(smooth(found[0]["iteration"][:count]), means, [min(v) for v in values], [max(v) for v in values])


def _chooser(norms: Sequence[str], peeking: set[str]) -> str:
    buttons = "".join(
        f'<button type="button" class="{series_class(n)}{" hollow" if n in peeking else ""}" data-norm="{n}" '
        f'aria-pressed="false">{n}</button>'
        for n in norms
    )
    return f'<div class="norms" role="group" aria-label="Highlight a norm"><span>Highlight</span>{buttons}</div>\n'


def _prose(words: str) -> str:
    """A sentence as HTML: what stands between backticks is a command; numbers stay with their signs and units."""
    made = []
    for place, part in enumerate(words.split("`")):
        if place % 2:
            made.append(f"<code>{entities.escape(part)}</code>")
        else:
            part = re.sub(r" (?=[±%])|(?<=±) ", "\N{NO-BREAK SPACE}", part)
            made.append(re.sub(r"\bTaskNorm-", "TaskNorm\N{NON-BREAKING HYPHEN}", entities.escape(part)))
    return "".join(made)
