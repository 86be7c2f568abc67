"""Which accuracy of which run goes into each cell of a table."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tasknorm.evaluation import Accuracy, over_seeds
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
    """A test result, and the run that it comes from.

    Attributes:
        others: the same result of runs that differ in their seeds alone.
    """

    record: Record
    result: Result
    others: tuple[Entry, ...] = ()

    @property
    def accuracy(self) -> Accuracy:
        """The accuracy; with MAML, after the step that did best on validation."""
        return self._over_seeds([e.result.accuracy for e in self.each])

    @property
    def maximum(self) -> Accuracy:
        """The accuracy; with MAML, after the step that does best on the test tasks, as in the paper."""
        return self._over_seeds([e.result.maximum for e in self.each])

    @property
    def each(self) -> tuple[Entry, ...]:
        """The result of each seed, this one first."""
        return (self, *self.others)

    @property
    def seed(self) -> int:
        """The seed of this training."""
        return self.record.settings.seed

    def of_seeds(self, seeds: Collection[int]) -> Entry:
        """The same result of the trainings with these seeds, of which there must be one."""
        first, *others = (replace(e, others=()) for e in self.each if e.seed in seeds)
        return replace(first, others=tuple(others))

    @property
    def seeds(self) -> int:
        """The number of trainings that the accuracy is of, each with a seed of its own."""
        return 1 + len(self.others)

    @property
    def tasks(self) -> int:
        """The number of test tasks, of all seeds together."""
        return sum(e.result.tasks for e in self.each)

    def _over_seeds(self, found: list[Accuracy]) -> Accuracy:
        """The mean over seeds with its interval by Student's t, which contains the chance of tasks if they differ.

        Seeds that were tested on the same tasks share that chance: its interval is added in squares.
        """
        if len(found) == 1:
            return found[0]
        mean = over_seeds([each.mean for each in found])
        if len({e.record.settings.test_seed for e in self.each}) == self.seeds:
            return mean
        return Accuracy(mean.mean, math.hypot(mean.interval, *(each.interval / len(found) ** 0.5 for each in found)))


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
        for row in record.results if is_papers(record) else ():
            key = Query(
                record.settings.learner, (row.source,), row.way, row.shot, row.norm, row.targets, None, row.weights
            )
            found[key].append(Entry(record, row))
    return found


def entry(accuracies: Index, query: Query) -> Entry | None:
    """The result that a query asks for, or None; of several runs, the longest training, then the first folder.

    Runs that differ from it in their seeds alone are counted in.
    """
    keys = [
        replace(query, sources=(source,), alpha=None, weights=weights)
        for source in query.sources
        for weights in dict.fromkeys((query.weights, "final"))
    ]
    found = [e for key in keys for e in accuracies.get(key, []) if _same_alpha(e.record, query)]
    if not found:
        return None
    first = max(found, key=lambda e: (trained_tasks(e.record), e.result.weights == query.weights))
    alike = [e for e in found if _but_seeds(e) == _but_seeds(first)]
    by_seed = {e.seed: e for e in reversed(alike)} | {first.seed: first}
    return replace(first, others=tuple(by_seed[seed] for seed in sorted(by_seed) if by_seed[seed] is not first))


def _but_seeds(e: Entry) -> dict[str, Any]:
    """What a result is of, without what may differ between seeds: these, how much was tested, and the machine."""
    settings = e.record.settings
    free = ("seed", "test_seed", "test_tasks", "test_targets", "test_weights", "validation_tasks", "validate_every")
    values = {name: value for name, value in settings.values().items() if name not in (*free, *settings.machine)}
    return values | {"weights": e.result.weights, "source": e.result.source}


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
            or not is_papers(record)
            or (s.sampling == "variable") != variable
            or not _serves(record, row, variable)
        ):
            continue
        key = (s.trained_norm, s.alpha)
        if key not in longest or trained_tasks(record) > trained_tasks(longest[key]):
            longest[key] = record
    return list(longest.values())


def is_papers(record: Record) -> bool:
    """Whether the run's learner is the one that its label names, not a variant of it."""
    kind = record.settings.kind
    return kind.title(record.settings.own) == kind.label


def _serves(record: Record, row: str, variable: bool) -> bool:
    tested = {(a.source, a.way, a.shot) for a in record.results}
    if variable:
        return any(source in sources for source, *_ in tested for sources in DATA_SETS.values())
    query = row_query(record.settings.learner, row, record.settings.norm, variable)
    return any((source, query.way, query.shot) in tested for source in query.sources)
