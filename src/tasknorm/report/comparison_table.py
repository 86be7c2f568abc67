"""The table of a comparison, for a page and for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rich import box
from rich.console import Group
from rich.table import Table as TextTable
from rich.text import Text

from tasknorm.episode import TARGETS
from tasknorm.report.render import Cell, Table, line
from tasknorm.report.verdict import joined

if TYPE_CHECKING:
    from tasknorm.report.comparison import Comparison

HEADINGS = ("norm", "all at once", "by example", "by class", "difference", "transductive", "ms / task")
UNTUNED = "untuned"
ON_TUNING = (
    "Untuned: the norm as it starts on the pretrained network, with targets all at once. As it was: that network with "
    "its own batch norms in eval, and nothing tuned."
)
SHORT = {"all at once": "all", "by example": "example", "by class": "class", "difference": "vs. best"}
SHORT |= {"transductive": "peeks", "ms / task": "ms/task"}  # 80 columns hold it


def table(found: Comparison) -> Table:
    """Norms by the accuracy that they keep however targets arrive, the best first; the best set is bold."""
    several = len(found.rounds) > 1
    tuned = any(found.untuned(norm) for norm in found.norms)
    lines = [
        line(
            [
                Cell(norm, several and norm in found.best),
                *([str(found.untuned(norm) or "")] if tuned else []),
                *(Cell(str(found.accuracy(norm, come)), several and norm in found.best) for come in TARGETS),
                "" if norm == found.reference else found.difference(norm).points,
                "yes" if norm in found.transductive else "no",
                f"{found.cost(norm).task:.1f}",
            ]
        )
        for norm in sorted(found.norms, key=lambda norm: -min(found.accuracy(norm, come).mean for come in TARGETS))
    ]
    headings = (HEADINGS[0], UNTUNED, *HEADINGS[1:]) if tuned else HEADINGS
    return Table("comparison", found.title, headings, tuple(lines), _notes(found) + ((ON_TUNING,) if tuned else ()))


def _notes(found: Comparison) -> tuple[str, ...]:
    """What the numbers of the table mean."""
    rounds, tasks = len(found.rounds), found.results[0][found.norms[0]]["all"].tasks
    audited = rounds * found.records[0].result.get("audited", 1)
    if rounds > 1:
        first = (
            f"Accuracy in %, ± 95 % interval over {rounds} {found.round_name}s, of {tasks} test tasks each.",
            "Bold: the best norm that does not peek, and all that cannot be told from it.",
            f"Difference: from {found.reference}, in points, paired within each {found.round_name}.",
        )
    else:
        first = (
            f"Accuracy in %, ± 95 % interval over {tasks} test tasks.",
            f"One {found.round_name}: intervals are of tasks alone, and no norm is called better than another.",
            f"Difference: from {found.reference}, in points.",
        )
    return (
        *first,
        *_audited(found, audited),
        "ms / task: milliseconds to adapt to a task and predict its targets, on one thread.",
    )


def _audited(found: Comparison, tasks: int) -> list[str]:
    """For which norms the audit proved that they need no further test."""
    labels = {norm: {results[norm]["all"].label for results in found.results} for norm in found.fair}
    proven = [norm for norm, said in labels.items() if said == {"non-transductive"}]
    if not proven:
        return []
    return [
        f"The audit proved on {tasks} tasks that predictions with {joined(proven, 'and')} do not depend on how targets "
        "arrive."
    ]


def text(found: Comparison) -> Group:
    """The table for a terminal."""
    made = table(found)
    rounds = f"{len(found.rounds)} {found.round_name}{'s' if len(found.rounds) > 1 else ''}"
    shown = TextTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in made.headings:
        side: Literal["left", "right"] = "left" if heading in ("norm", "transductive") else "right"
        shown.add_column(SHORT.get(heading, heading), justify=side, no_wrap=True)
    for item in made.lines:
        texts = [cell.text.replace(" ± ", "±") for cell in item.cells]
        marked = (f"[bold]{t}[/]" if cell.bold else t for t, cell in zip(texts, item.cells, strict=True))
        peeks = item.cells[made.headings.index("transductive")].text == "yes"
        shown.add_row(*marked, style="yellow" if peeks else None)
    return Group(Text(f"{made.title}, {rounds}: accuracy in % by how targets arrive"), shown)
