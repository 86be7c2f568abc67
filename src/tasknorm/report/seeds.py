"""How far TaskNorm-I is ahead of norms that were trained with the same seeds: differences within each seed.

Trainings of one seed share their start, their training tasks and their test tasks, so that their difference scatters
less than their accuracies do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from tasknorm.evaluation import Accuracy, over_seeds
from tasknorm.report.lookup import Entry
from tasknorm.report.places import KINDS, Column, Entries, all_seeds
from tasknorm.report.published import published
from tasknorm.report.render import Cell, Table, line
from tasknorm.runs import Record

REFERENCE = "TaskNorm-I"
AHEAD = f"{REFERENCE} is ahead by"
BySeed = dict[int, float]


def paired(found: Entries) -> dict[str, dict[str, BySeed]]:
    """The differences by column, row and seed.

    Columns are those of norms that have two seeds or more in common with TaskNorm-I, the same ones in all their rows.
    """
    differences: dict[str, dict[str, BySeed]] = {}
    for row, cells in found.items():
        for column, e in cells.items():
            if column != REFERENCE and REFERENCE in cells and len(by_seed := _by_seed(cells[REFERENCE], e)) > 1:
                differences.setdefault(column, {})[row] = by_seed
    shared = {column: set.intersection(*map(set, rows.values())) for column, rows in differences.items()}
    return {
        column: {row: {seed: by_seed[seed] for seed in sorted(shared[column])} for row, by_seed in rows.items()}
        for column, rows in differences.items()
        if len(shared[column]) > 1
    }


def mean_over_rows(rows: Mapping[str, BySeed]) -> Accuracy:
    """The mean of the rows' differences with its 95 % interval over seeds."""
    return over_seeds([fmean(values) for values in zip(*(by_seed.values() for by_seed in rows.values()), strict=True)])


def seeds_table(records: Sequence[Record], name: str) -> Table | None:
    """Accuracies and differences for one of the paper's tables, with means over its rows; None if there are none."""
    found = all_seeds(records, name)
    differences = paired(found)
    if not differences:
        return None
    columns = [REFERENCE, *differences]
    rows = [row for row in published()[name].rows if any(row in by_row for by_row in differences.values())]
    lines = []
    for row in rows:
        ahead = {c: over_seeds([*by_row[row].values()]) for c, by_row in differences.items() if row in by_row}
        accuracies = {c: found[row][c].accuracy for c in (REFERENCE, *ahead)}
        lines.append(line([row, "accuracy", *(str(accuracies.get(c, "")) for c in columns)]))
        lines.append(line(["", AHEAD, *_cells(columns, ahead)]))
    if len(rows) > 1:
        means = {c: mean_over_rows(by_row) for c, by_row in differences.items()}
        lines.append(line(["Mean", AHEAD, *_cells(columns, means)], "rank", rule=True))
    seeds = (f"{len(next(iter(rows.values())))} with {Column.named(c).heading}" for c, rows in differences.items())
    tasks = sorted({(e.seed, e.result.tasks) for row in rows for e in found[row][REFERENCE].each})
    return Table(
        f"{name}_seeds",
        f"{KINDS[name].title}, with the same seeds: accuracy in %, and points by which {REFERENCE} is ahead",
        ("", "", *(Column.named(c).heading for c in columns)),
        tuple(lines),
        (
            f"Below 0, {REFERENCE} is behind. Bold: the difference is significant at the 95 % level.",
            f"Seeds that {REFERENCE} has in common: {', '.join(seeds)}.",
            f"Test tasks of each row: {', '.join(f'{count:,} of seed {seed}' for seed, count in tasks)}.",
            "Differences are taken within each seed, on the same test tasks. Their intervals are over trainings, by "
            "Student's t; they leave out the chance of the test tasks, which seeds may share.",
            "The paper's table counts the seeds that all of its columns have.",
        ),
        words=2,
    )


def _cells(columns: Iterable[str], found: Mapping[str, Accuracy]) -> list[str | Cell]:
    return [Cell(d.points, abs(d.mean) > d.interval + 1e-11) if (d := found.get(c)) else "" for c in columns]


def _by_seed(reference: Entry, other: Entry) -> BySeed:
    """The difference of accuracies for each seed with which both were trained and tested on the same tasks."""
    ours, theirs = (
        {(s.seed, s.record.settings.test_seed, s.result.tasks): s.result.accuracy.mean for s in e.each}
        for e in (reference, other)
    )
    return {key[0]: ours[key] - theirs[key] for key in sorted(ours) if key in theirs}
