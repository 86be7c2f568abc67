"""The notes below a table: how its runs differ from the paper's, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tasknorm.learners import LEARNERS, Asked
from tasknorm.norms import NORMS
from tasknorm.report.lookup import DATA_SETS, Entry, trained_tasks
from tasknorm.report.places import KINDS, Column, Entries, Kind, ranked_rows
from tasknorm.report.published import published
from tasknorm.settings import Settings, papers_settings

T = TypeVar("T", int, tuple[int, int])

NOT_HAD = ("Aircraft", "Fungi", "MSCOCO")
CORRECTED = (
    "Authors, corrected: TaskNorm-I as its authors published it again in January 2021, trained for 40,000 tasks, with "
    "images shuffled within their classes. Ours are shuffled too; those of the paper's lines were not. These numbers "
    "are not part of the paper, nor of any average rank."
)
SEEDS = (
    "Intervals of several seeds are over trainings, by Student's t; those of one seed are over test tasks alone, and "
    "too narrow to tell what another training would give."
)
WORDS = {
    "net": "network {}",
    "image_size": "images of {} px",
    "train_way": "{}-way tasks at meta-train",
    "train_targets": "targets per class at meta-train {}",
    "max_way": "at most {} classes at meta-train",
    "max_context": "at most {} context images at meta-train",
    "meta_batch": "tasks per iteration {}",
    "learning_rate": "learning rate {}",
    "resize": "images resized by {}",
    "augment": "training images augmented by {}",
}
UNSAID = {"resize": "the data set's rule", "augment": "nothing"}  # what it means that such a setting is None


def notes(name: str, found: Entries) -> list[str]:
    """The notes below one of the paper's tables that holds these entries."""
    kind, paper = KINDS[name], published()[name]
    columns = [Column.named(column) for column in paper.columns]
    said = ["Bold: the best score of a line, and all that do not differ from it at the 95 % level."]
    if any(NORMS[c.norm].transductive for c in columns):
        said.append("† transductive: a prediction depends on the other targets.")
    if kind.variable:
        said.append(f"Data sets that meta-training does not see: {_listed(paper.held_out)}.")
    if paper.corrected:
        said.append(CORRECTED)
    if not any(found.values()):
        return [*said, "The records hold no runs for this table."]
    return [*said, *_notes_on_weights(kind, found), *_notes_on_rows(name, found), *_notes_on_training(kind, found)]


def _notes_on_weights(kind: Kind, found: Entries) -> list[str]:
    """Which weights were tested, and with MAML after which step."""
    names = {"final": "the weights after the last iteration", "best": "the weights that did best on validation"}
    ours = " or ".join(
        names[w] for w in names if any(e.result.weights == w for f in found.values() for e in f.values())
    )
    if LEARNERS[kind.learner].has_steps:
        return [
            f"Tested here and in the paper: {ours}.",
            "Best step: the gradient step with the highest accuracy on the test tasks, as in the paper. Chosen step: "
            "the one with the highest accuracy on validation tasks.",
        ]
    paper = (
        "the last weights or the best on validation, whichever did better on the test tasks"
        if kind.variable
        else names["best"]
    )
    return [f"Tested here: {ours}. In the paper: {paper}."]


def _notes_on_rows(name: str, found: Entries) -> list[str]:
    paper = published()[name]
    missing = [row for row, line in found.items() if not line]
    not_had = [row for row in missing if row in NOT_HAD]
    not_run = [row for row in missing if row not in NOT_HAD]
    lines = {row: list(line.values()) for row, line in found.items() if line}
    stand_ins = [row for row, line in lines.items() if any(e.result.source == "tiny_imagenet" for e in line)]
    unseen = [
        row
        for row, line in lines.items()
        if KINDS[name].variable
        and row not in paper.held_out
        and not any(source in e.record.settings.sources for source in DATA_SETS[row] for e in line)
    ]
    ranked = ranked_rows(
        {row: {c: e.accuracy for c, e in line.items()} for row, line in found.items()}, paper.average_rank
    )
    partial = paper.average_rank and 0 < len(ranked) < len(paper.rows)
    return [
        *([f"{_listed(not_had)}: not run, since the data could not be obtained."] if not_had else []),
        *([f"Not run: {_listed(not_run)}."] if not_run else []),
        *([f"{_listed(stand_ins)}: replaced by Tiny-ImageNet here."] if stand_ins else []),
        *([f"{_listed(unseen)}: held out here, but part of meta-training in the paper."] if unseen else []),
        *([f"Our average ranks are over these rows: {_listed(ranked)}."] if partial else []),
    ]


def _notes_on_training(kind: Kind, found: Entries) -> list[str]:
    """How long the runs were trained, how much each cell rests on, and how they differ from the paper's."""
    places = [(row, column, e) for row, line in found.items() for column, e in line.items()]
    unit = kind.counted
    lengths = {
        (row, column): e.record.settings.iterations if unit == "iterations" else trained_tasks(e.record)
        for row, column, e in places
    }
    usual, exceptions = _exceptions(lengths)
    return [
        f"Meta-training: {usual:,} {unit} here; in the paper {_paper_length(kind, places)}.",
        *(f"Exception: {length:,} {unit} for {where}." for length, where in exceptions),
        *_notes_on_tests(kind, places),
        *_differences(kind, [(row, e) for row, _, e in places]),
    ]


def _notes_on_tests(kind: Kind, places: Sequence[tuple[str, str, Entry]]) -> list[str]:
    """On how many test tasks and seeds each cell rests."""
    usual, exceptions = _exceptions({(row, column): (e.tasks, e.seeds) for row, column, e in places})
    paper = "the paper's on 600 tasks" if kind.stated else "the paper does not say on how many its own do"
    return [
        f"Each of our accuracies rests on {_amount(*usual)}; {paper}.",
        *(f"Exception: {_amount(*other)} for {where}." for other, where in exceptions),
        *([SEEDS] if any(e.seeds > 1 for *_, e in places) else []),
    ]


def _exceptions(values: Mapping[tuple[str, str], T]) -> tuple[T, list[tuple[T, str]]]:
    """The usual one of the values of a table's cells, and each other value with the columns and rows that have it."""
    usual = Counter(values.values()).most_common(1)[0][0]
    found = []
    for other in sorted(set(values.values()) - {usual}):
        rows_of: dict[str, list[str]] = {}
        for row in dict.fromkeys(row for row, _ in values):
            cells = {column: value == other for (name, column), value in values.items() if name == row}
            named = _listed(Column.named(column).heading for column, is_other in cells.items() if is_other)
            if named:
                rows_of.setdefault("all columns" if all(cells.values()) else named, []).append(row)
        found += [(other, f"{columns} in {_listed(rows)}") for columns, rows in rows_of.items()]
    return usual, found


def _amount(tasks: int, seeds: int) -> str:
    return f"{tasks:,} test tasks and {seeds} seed{'s' if seeds > 1 else ''}"


def _paper_length(kind: Kind, places: Sequence[tuple[str, str, Entry]]) -> str:
    if not kind.stated:
        return "until validation accuracy stopped improving"
    papers = [_papers(e) for *_, e in places]
    counts = sorted({p["iterations"] * (1 if kind.counted == "iterations" else p["meta_batch"]) for p in papers})
    return " to ".join(f"{count:,}" for count in ([counts[0], counts[-1]] if len(counts) > 1 else counts))


def _papers(e: Entry) -> dict[str, Any]:
    """The papers' settings for the run and norm of an entry."""
    s, r = e.record.settings, e.result
    return papers_settings(s.learner, Asked(s.sources, r.norm, r.way or 5, r.shot or 1, s.sampling))


def _differences(kind: Kind, found: Sequence[tuple[str, Entry]]) -> list[str]:
    """How the network, the images and the tasks of meta-training differ from the paper's."""
    different: dict[str, dict[tuple[str, str], list[str]]] = {}
    for row, e in found:
        s = e.record.settings
        paper = {key: Settings.model_fields[key].default for key in ("max_way", "max_context", *UNSAID)}
        paper |= _papers(e)
        paper |= {"net": "resnet18", "image_size": 84, "train_way": s.train_way} if kind.variable else {}
        for key in WORDS:
            ours, theirs = (str(UNSAID.get(key) if v is None else v) for v in (getattr(s, key), paper[key]))
            if ours != theirs:
                different.setdefault(key, {}).setdefault((ours, theirs), []).append(row)
    rows = len({row for row, _ in found})
    texts = []
    for key, pairs in different.items():
        for (ours, theirs), cells in pairs.items():
            there = list(dict.fromkeys(cells))
            where = "" if len(there) == rows else f" in {_listed(there)}"
            texts.append(f"{WORDS[key].format(ours)} ({theirs}){where}")
    return [f"Other differences, with the paper's value in brackets: {'; '.join(texts)}."] if texts else []


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
