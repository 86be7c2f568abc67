"""Which accuracy of which run goes into each cell of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tasknorm.evaluation import Accuracy
from tasknorm.runs import Record, Result

# The names of our sources for each data set of the paper; Tiny-ImageNet replaces ILSVRC.
DATA_SETS: dict[str, tuple[str, ...]] = {
    "Omniglot": ("omniglot", "omniglot_vinyals", "omniglot_alphabets"),
    "miniImageNet": ("mini_imagenet",),
    "ILSVRC": ("ilsvrc_2012", "tiny_imagenet"),
    "Aircraft": ("aircraft",),
    "Birds": ("cu_birds",),
    "Textures": ("dtd",),
    "Quick Draw": ("quickdraw",),
    "Fungi": ("fungi",),
    "VGG Flower": ("vgg_flower",),
    "Traffic Signs": ("traffic_sign",),
    "MSCOCO": ("mscoco",),
    "MNIST": ("mnist",),
    "CIFAR10": ("cifar10",),
    "CIFAR100": ("cifar100",),
}


@dataclass(frozen=True)
class Query:
    """What belongs in a cell of a table; way and shot are None for tasks of variable size.

    Attributes:
        alpha: the form of TaskNorm's alpha; ignored for other norms.
        weights: `best` on validation or `final`; if a run has no best weights, its final ones are used.
    """

    learner: str
    sources: tuple[str, ...]
    way: int | None
    shot: int | None
    norm: str
    targets: str = "all"
    alpha: str | None = None
    weights: str = "best"


@dataclass(frozen=True)
class Entry:
    """A test result, and the run that it comes from."""

    record: Record
    result: Result

    @property
    def accuracy(self) -> Accuracy:
        """The accuracy; with MAML, after the step that did best on validation."""
        return self.result.accuracy

    @property
    def maximum(self) -> Accuracy:
        """The accuracy; with MAML, after the step that does best on the test tasks, as in the paper."""
        return self.result.maximum


def row_query(learner: str, row: str, norm: str, variable: bool) -> Query:
    """The query for a row of the paper's tables: a data set, or `Omniglot-5-1` with way and shot.

    >>> row_query("maml", "Omniglot-20-5", "RN", variable=False).way
    20
    """
    if variable:
        return Query(learner, DATA_SETS[row], None, None, norm)
    name, way, shot = row.rsplit("-", 2)
    return Query(learner, DATA_SETS[name], int(way), int(shot), norm)


Index = dict[Query, list[Entry]]


def index(records: Iterable[Record]) -> Index:
    """All test results by the query that each answers; these queries have one source and no alpha.

    Variants of a learner, such as ANIL, are in none of the paper's tables.
    """
    found: Index = defaultdict(list)
    for record in records:
        for row in record.results if _is_papers(record) else ():
            key = Query(
                record.settings.learner, (row.source,), row.way, row.shot, row.norm, row.targets, None, row.weights
            )
            found[key].append(Entry(record, row))
    return found


def entry(accuracies: Index, query: Query) -> Entry | None:
    """The result that a query asks for, or None; of several runs, the longest training, then the first folder."""
    keys = [
        replace(query, sources=(source,), alpha=None, weights=weights)
        for source in query.sources
        for weights in dict.fromkeys((query.weights, "final"))
    ]
    found = [e for key in keys for e in accuracies.get(key, []) if _same_alpha(e.record, query)]
    return max(found, key=lambda e: (trained_tasks(e.record), e.result.weights == query.weights), default=None)


def _same_alpha(record: Record, query: Query) -> bool:
    return query.alpha is None or record.settings.alpha in (None, query.alpha)


def trained_tasks(record: Record) -> int:
    """The number of tasks in meta-training."""
    return record.settings.iterations * record.settings.meta_batch


def extractor_alphas(record: Record) -> list[dict[str, Any]]:
    """SCALE and OFFSET of the feature extractor's layers, as in the paper's figures; not of CNAPs' set encoder."""
    return [layer for layer in record.result["alphas"] if not layer["layer"].startswith("set_encoder.")]


def trainings(records: Iterable[Record], learner: str, row: str, variable: bool) -> list[Record]:
    """The runs behind a row of the paper's tables; of several with the same norm and alpha, the longest.

    With tasks of variable size, one training serves all rows.
    """
    longest: dict[tuple[str, str | None], Record] = {}
    for record in records:
        s = record.settings
        if (
            s.learner != learner
            or not _is_papers(record)
            or (s.sampling == "variable") != variable
            or not _serves(record, row, variable)
        ):
            continue
        key = (s.trained_norm, s.alpha)
        if key not in longest or trained_tasks(record) > trained_tasks(longest[key]):
            longest[key] = record
    return list(longest.values())


def _is_papers(record: Record) -> bool:
    """Whether the run's learner is the one that its label names, not a variant of it."""
    kind = record.settings.kind
    return kind.title(record.settings.own) == kind.label


def _serves(record: Record, row: str, variable: bool) -> bool:
    tested = {(a.source, a.way, a.shot) for a in record.results}
    if variable:
        return any(source in sources for source, *_ in tested for sources in DATA_SETS.values())
    query = row_query(record.settings.learner, row, record.settings.norm, variable)
    return any((source, query.way, query.shot) in tested for source in query.sources)
