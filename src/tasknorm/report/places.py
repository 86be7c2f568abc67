"""Rows and columns of the paper's tables, and our accuracies in their cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tasknorm.evaluation import Accuracy
from tasknorm.norms import NORMS
from tasknorm.report.lookup import Entry, entry, index, row_query
from tasknorm.report.published import published
from tasknorm.runs import Record

Entries = dict[str, dict[str, Entry]]  # by row, then by column


@dataclass(frozen=True)
class Kind:
    """What the runs of one of the paper's tables have in common.

    Attributes:
        variable: tasks of variable size, as in Meta-Dataset.
        alpha: the form of TaskNorm's alpha; None where each column has its own.
        weights: `final` after the last iteration, as in the paper for MAML, or `best` on validation.
        counted: the unit in which the paper gives the length of meta-training.
        stated: whether the paper says how long it trained and on how many tasks it tested.
    """

    learner: str
    title: str
    variable: bool
    alpha: str | None
    weights: str
    counted: str = "tasks"
    stated: bool = True


KINDS = {
    "maml_results": Kind(
        "maml", "MAML on Omniglot and miniImageNet", False, "independent-shared", "final", "iterations"
    ),
    "protonets_results": Kind(
        "protonets", "ProtoNets on Omniglot and miniImageNet", False, "independent-shared", "best", stated=False
    ),
    "cnaps_meta_dataset": Kind("cnaps", "CNAPs on Meta-Dataset", True, "functional-shared", "best"),
    "protonets_meta_dataset": Kind("protonets", "ProtoNets on Meta-Dataset", True, "functional-shared", "best"),
    "transduction_issues": Kind(
        "cnaps", "CNAPs with targets all at once, by example and by class", True, "functional-shared", "best"
    ),
    "parameterization_maml": Kind("maml", "Forms of alpha in TaskNorm-I with MAML", False, None, "final", "iterations"),
    "parameterization_cnaps": Kind("cnaps", "Forms of alpha in TaskNorm-I with CNAPs", True, None, "best"),
}


@dataclass(frozen=True)
class Column:
    """A column of a table: a norm, how its targets arrive, and the form of alpha if the table compares forms."""

    norm: str
    targets: str = "all"
    alpha: str | None = None

    @classmethod
    def named(cls, name: str) -> Column:
        """The column that has this name in the paper's tables.

        >>> Column.named("TBN/Example")
        Column(norm='TBN', targets='example', alpha=None)
        >>> Column.named("Functional/ChannelSpecific").alpha
        'functional-channel'
        """
        first, _, second = name.partition("/")
        if first in ("Independent", "Functional"):
            return cls("TaskNorm-I", alpha=f"{first.lower()}-{'shared' if second == 'Shared' else 'channel'}")
        for targets in ("example", "class"):
            if name.endswith(f"-{targets}"):
                return cls(name.removesuffix(f"-{targets}"), targets)
        return cls(first, second.lower() or "all")

    @property
    def heading(self) -> str:
        if self.alpha:
            return self.alpha.replace("-", ", ").replace("channel", "channel-specific")
        how = "" if self.targets == "all" else f" by {self.targets}"
        return f"{self.norm}{how}{' †' if NORMS[self.norm].transductive else ''}"


def entries(records: Sequence[Record], name: str) -> Entries:
    """Our test results by row and column of one of the paper's tables; cells without a run are left out.

    Columns of a row are compared, so each counts the seeds that all of them have, if there are any.
    """
    found = all_seeds(records, name)
    for row, cells in found.items():
        shared = set.intersection(*({s.seed for s in e.each} for e in cells.values())) if cells else set()
        found[row] = {column: e.of_seeds(shared) for column, e in cells.items()} if shared else cells
    return found


def all_seeds(records: Sequence[Record], name: str) -> Entries:
    """The same with all seeds of each column, whether others have them or not."""
    table, kind, found = published()[name], KINDS[name], Entries()
    accuracies = index(records)
    for row in table.rows:
        found[row] = {}
        for column in table.columns:
            c = Column.named(column)
            query = replace(
                row_query(kind.learner, row, c.norm, kind.variable),
                targets=c.targets,
                alpha=c.alpha or kind.alpha,
                weights=kind.weights,
            )
            if e := entry(accuracies, query):
                found[row][column] = e
    return found


def ranked_rows(rows: Mapping[str, Mapping[str, Accuracy]], columns: Iterable[str]) -> dict[str, dict[str, Accuracy]]:
    """The rows for an average rank: those that have all columns for which there is a score in any row."""
    there = [column for column in columns if any(column in row for row in rows.values())]
    full = {name: row for name, row in rows.items() if there and all(column in row for column in there)}
    return {name: {column: row[column] for column in there} for name, row in full.items()}
