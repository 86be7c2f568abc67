"""What a comparison of norms found: a verdict, a table, and a page with curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from rich import box
from rich.table import Table as TextTable

from tasknorm.episode import TARGETS
from tasknorm.evaluation import Accuracy, differ
from tasknorm.files import write_atomically
from tasknorm.report import page
from tasknorm.report.average_rank import average_ranks, bold, groups
from tasknorm.report.drawing import Picture
from tasknorm.report.figures import accuracy_by_targets, alpha_curves, training_curves
from tasknorm.report.page import Fact, Report, Section
from tasknorm.report.render import Cell, Table, line
from tasknorm.runs import Record, Result

HEADINGS = ("norm", "all at once", "by example", "by class", "average rank", "transductive", "ms / task")
SHORT = {"all at once": "all", "by example": "example", "by class": "class", "average rank": "avg. rank"}


@dataclass(frozen=True)
class Comparison:
    """Trainings of one learner on one source, and the norms that were asked for.

    Accuracies are those of the weights that did best on validation tasks. Average ranks are over three columns: targets
    all at once, by example and by class.
    """

    records: Sequence[Record]
    norms: Sequence[str]

    @cached_property
    def results(self) -> dict[str, dict[str, Result]]:
        """Test results by norm, then by how targets arrive."""
        found: dict[str, dict[str, Result]] = {norm: {} for norm in self.norms}
        for record in self.records:
            for result in record.chosen():
                if result.norm in found:
                    found[result.norm][result.targets] = result
        return found

    @cached_property
    def accuracies(self) -> dict[str, dict[str, Accuracy]]:
        """Test accuracies by norm, then by how targets arrive."""
        return {norm: {come: r.accuracy for come, r in by.items()} for norm, by in self.results.items()}

    @cached_property
    def ranks(self) -> dict[str, float]:
        """Average rank of each norm."""
        return average_ranks({norm: self.accuracies[norm][come] for norm in self.norms} for come in TARGETS)

    @property
    def transductive(self) -> list[str]:
        """Norms whose predictions depend on the other targets."""
        return [norm for norm in self.norms if self.results[norm]["all"].label.startswith("transductive")]

    @property
    def best(self) -> list[str]:
        """The best norm that is not transductive, and those that do not differ from it."""
        fair = {norm: self.accuracies[norm]["all"] for norm in self.norms if norm not in self.transductive}
        return groups(fair)[0] if fair else []

    def verdict(self) -> list[str]:
        """The answer in sentences: which norm to use, and what to expect of transductive norms."""
        advice = [self._advice()] if self.best else []
        return advice + [self._on_transductive(norm) for norm in self.transductive]

    def table(self) -> Table:
        """Norms by average rank, the best first; the best of each column is bold."""
        strong = {come: bold({norm: self.accuracies[norm][come] for norm in self.norms}) for come in TARGETS}
        lines = [
            line(
                [
                    norm,
                    *(Cell(str(self.accuracies[norm][come]), norm in strong[come]) for come in TARGETS),
                    f"{self.ranks[norm]:.2f}",
                    "yes" if norm in self.transductive else "no",
                    f"{1000 * self._seconds(norm):.1f}",
                ]
            )
            for norm in sorted(self.norms, key=lambda norm: self.ranks[norm])
        ]
        tasks = self.results[self.norms[0]]["all"].tasks
        notes = (
            f"Accuracy in %, ± 95 % interval over {tasks} test tasks, of {self._weights}.",
            "Bold: the best of a column, and all that do not differ from it significantly.",
            "Average rank: the mean over the three columns; ties share their places.",
            "ms / task: milliseconds to adapt to a task and predict its targets, on one thread.",
        )
        return Table("comparison", self.title, HEADINGS, tuple(lines), notes)

    def text(self) -> TextTable:
        """The table for a terminal."""
        made = self.table()
        title = f"{made.title}: accuracy in % by how targets arrive"
        shown = TextTable(title=title, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0))
        for heading in made.headings:
            side: Literal["left", "right"] = "left" if heading in ("norm", "transductive") else "right"
            shown.add_column(SHORT.get(heading, heading), justify=side, no_wrap=True)
        for item in made.lines:
            texts = [cell.text.replace(" ± ", "±") for cell in item.cells]
            marked = (f"[bold]{t}[/]" if cell.bold else t for t, cell in zip(texts, item.cells, strict=True))
            shown.add_row(*marked, style="yellow" if item.cells[5].text == "yes" else None)
        return shown

    @property
    def title(self) -> str:
        """The learner, source and shape of tasks that were compared."""
        settings = self.records[0].settings
        source = settings.source.replace(",", ", ")
        shape = "variable tasks" if settings.sampling == "variable" else f"{settings.way}-way {settings.shot}-shot"
        return f"{settings.kind.label} on {source}, {shape}"

    def write(self, path: Path) -> None:
        """Write the page."""
        settings = self.records[0].settings
        seconds = sum(record.result["seconds"] for record in self.records)
        lead = " ".join(self.verdict())
        facts = [
            Fact(
                self.best[0].replace("-", "\N{NON-BREAKING HYPHEN}") if self.best else "—", "best non-transductive norm"
            ),
            Fact(str(len(self.norms)), f"norms, from {len(self.records)} trainings"),
            Fact(f"{settings.iterations:,}", "iterations in each training"),
            Fact(f"{seconds / 60:.1f} min", "of training in total"),
        ]
        sections = [
            Section("Which norm?", blocks=[self.table()]),
            Section("What if targets arrive one by one?", [_ALONE], [self._drop()]),
            *([Section("Training", [_TRAINING], [self._training()])] if self._trained else []),
            *([Section("What TaskNorm learned", [_ALPHA], alphas)] if (alphas := self._alphas()) else []),
        ]
        report = Report(f"Norms compared: {self.title}", lead, facts, sections)
        write_atomically(path, page.html(report).encode())

    def _advice(self) -> str:
        first, *tied = self.best
        best = self.results[first]["all"]
        if not tied:
            return f"Use {first}: with {best.accuracy} % it is the best norm that does not peek at other targets."
        return (
            f"Use {_or(self.best)}: their differences are within the noise of {best.tasks} test tasks and 1 seed. "
            f"{first} has the highest accuracy, {best.accuracy} %."
        )

    def _on_transductive(self, norm: str) -> str:
        every, example, by_class = (self.accuracies[norm][come] for come in TARGETS)
        words = f"{every} % with all targets at once, {example} % one by one, {by_class} % class by class"
        ways = ((example, "one by one"), (by_class, "class by class"))
        falls = [(every.percent - alone.percent, how) for alone, how in ways if differ(every, alone)]
        points, how = max(falls, default=(0.0, ""))
        hint = f" It looks {points:.1f} points better than it is if targets arrive {how}." if points > 0 else ""
        return f"{norm} is transductive: {words}.{hint}"

    @property
    def _weights(self) -> str:
        return "the weights that did best on validation" if self._trained else "the pretrained weights"

    @property
    def _trained(self) -> bool:
        return all(record.settings.iterations for record in self.records)

    def _drop(self) -> Picture:
        drops = [
            f"{n} {self.accuracies[n]['example'].percent - self.accuracies[n]['all'].percent:+.1f}" for n in self.norms
        ]
        words = f"Change in accuracy from all at once to one by one, in percentage points: {', '.join(drops)}."
        return Picture("targets", "Accuracy by how targets arrive", words, accuracy_by_targets(self.accuracies))

    def _training(self) -> Picture:
        last = {
            norm: values[-1]
            for record in self.records
            for norm, values in record.result["validation"]["accuracy"].items()
            if norm in self.norms
        }
        order = sorted(last, key=lambda norm: -last[norm])
        words = f"Last validation accuracies: {', '.join(f'{norm} {100 * last[norm]:.1f} %' for norm in order)}."
        return Picture("training", "Training curves", words, training_curves(self.records))

    def _alphas(self) -> list[Picture]:
        return [
            Picture(
                f"alpha-{record.settings.norm}",
                f"alpha against context size: {record.settings.norm}",
                f"In training, contexts had {record.result['contexts']:.0f} images on average (dotted line); far from "
                "that size the curves are extrapolations.",
                alpha_curves(record),
            )
            for record in self.records
            if record.result["alphas"] and self._trained
        ]

    def _seconds(self, norm: str) -> float:
        return next(
            float(record.result["seconds_per_test_task"][norm])
            for record in self.records
            if norm in record.settings.tested_norms
        )


def _or(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


_ALONE = (
    "A norm is transductive if a prediction depends on the other targets of its task. Such a norm can look better than "
    "it is: in use, targets often arrive one by one, or all of one class. The accuracy of other norms must not change."
)
_TRAINING = "TBN, CBN and RN share one training, whose loss is drawn as CBN's; each has its own validation accuracy."
_ALPHA = (
    "alpha says how much a context counts when an example is normalised: 1 is the context alone, 0 the example alone. "
    "It is learned for each layer, as a function of the context's size."
)
