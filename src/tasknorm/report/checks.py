"""A check on records for each claim of the paper, which returns a verdict and the numbers behind it.

Accuracies are those of the tables; MAML's are after the gradient step chosen on validation. Two accuracies differ if
`|a - b| > sqrt(ci_a^2 + ci_b^2)`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import torch

from tasknorm.evaluation import Accuracy, differ
from tasknorm.learners import LEARNERS
from tasknorm.norms import NORMS, RN, TaskNormI
from tasknorm.phase import context, target
from tasknorm.report.average_rank import average_ranks
from tasknorm.report.lookup import extractor_alphas, trainings
from tasknorm.report.places import KINDS, Column, all_seeds, entries, ranked_rows
from tasknorm.report.published import published
from tasknorm.report.seeds import REFERENCE, mean_over_rows, paired
from tasknorm.report.speed import mean_training_accuracies
from tasknorm.runs import Record
from tasknorm.settings import SHARED

Verdict = Literal["holds", "does not hold", "not tested"]


class Finding(NamedTuple):
    """The verdict of a check, and the numbers behind it."""

    verdict: Verdict
    numbers: str


NOT_TESTED = Finding("not tested", "the records hold no runs for this claim")


def tbn_collapses(records: Sequence[Record], targets: str, share: float) -> Finding:
    """TBN's accuracy by example or by class differs from that all at once and is below this share of it."""
    pairs = {}
    for name, alone in (("maml_results", f"TBN-{targets}"), ("transduction_issues", f"TBN/{targets.title()}")):
        for row, scores in _scores(records, name).items():
            whole = scores.get("TBN" if name == "maml_results" else "TBN/All")
            if whole and alone in scores:
                pairs[f"{LEARNERS[KINDS[name].learner].label} {row}"] = (whole, scores[alone])
    fallen = [differ(a, b) and b.mean < share * a.mean for a, b in pairs.values()]
    return _finding(fallen, (f"{row} from {a.percent:.1f} to {b.percent:.1f}" for row, (a, b) in pairs.items()))


def running_averages_fail(records: Sequence[Record], share: float) -> Finding:
    """In every setting, CBN's and BRN's accuracy above chance is below a share of the best non-transductive norm's."""
    passed, words = [], []
    for row, scores in _scores(records, "maml_results").items():
        chance = 100 / int(row.split("-")[1])
        others = [s.percent for c, s in scores.items() if c not in ("CBN", "BRN") and not _transductive(c)]
        if {"CBN", "BRN"} <= set(scores) and others:
            cbn, brn = scores["CBN"].percent, scores["BRN"].percent
            passed.append(max(cbn, brn) - chance < share * (max(others) - chance))
            words.append(f"{row} CBN {cbn:.1f}, BRN {brn:.1f}, best other {max(others):.1f}, chance {chance:.0f}")
    return _finding(passed, words)


def best_rank(records: Sequence[Record], name: str, column: str) -> Finding:
    """No other non-transductive column has a lower average rank; ranks are over the complete rows.

    All columns of the paper must have been run: the best of a few norms need not be the best of all.
    """
    rows = ranked_rows(_scores(records, name), published()[name].average_rank)
    wanted = {c for c in published()[name].average_rank if not _transductive(c)}
    ranks = {c: rank for c, rank in average_ranks(rows.values()).items() if not _transductive(c)}
    if set(ranks) != wanted:
        return NOT_TESTED
    order = sorted(ranks, key=lambda c: ranks[c])
    words = f"average ranks over {len(rows)} row{'s'[: len(rows) > 1]}: "
    words += ", ".join(f"{c} {ranks[c]:.2f}" for c in order)
    alike = [c for c in order if c != column and ranks[c] == ranks[column]]
    lowest = ranks[column] <= min(ranks.values())
    words = f"tied with {' and '.join(alike)}; {words}" if lowest and alike else words
    return _finding([lowest], [words, *_over_seeds(records, name, column)])


def _over_seeds(records: Sequence[Record], name: str, column: str) -> Iterator[str]:
    """By how much a column is ahead of the others that were trained with the same seeds, in words."""
    differences = paired(all_seeds(records, name)) if column == REFERENCE else {}
    means = {c: mean_over_rows(rows) for c, rows in differences.items() if not _transductive(c)}
    if means:
        ahead = ", ".join(f"{c} {mean.points}" for c, mean in means.items())
        yield f"points by which {column} is ahead with the same seeds, mean over rows: {ahead}"


def instance_based_slowest(records: Sequence[Record]) -> Finding:
    """On Meta-Dataset, LN and IN have the two lowest mean training accuracies, over the iterations that all share."""
    passed, words = [], []
    for name in ("cnaps_meta_dataset", "protonets_meta_dataset"):
        means = mean_training_accuracies(_runs(records, name, "Omniglot"))
        if set(means) == _trained(name):
            slowest = sorted(means, key=lambda norm: means[norm])
            passed.append(set(slowest[:2]) == {"LN", "IN"})
            words.append(
                f"{LEARNERS[KINDS[name].learner].label}: " + ", ".join(f"{norm} {means[norm]:.1f}" for norm in slowest)
            )
    return _finding(passed, words)


def faster_than_cbn(records: Sequence[Record]) -> Finding:
    """TaskNorm-I's mean training accuracy is above CBN's on Meta-Dataset.

    MAML is left out: in the paper, the training that CBN shares with TBN is the fastest of all there.
    """
    passed, words = [], []
    for name in ("cnaps_meta_dataset", "protonets_meta_dataset"):
        means = mean_training_accuracies(_runs(records, name, "Omniglot"))
        if {"TaskNorm-I", "CBN"} <= set(means):
            passed.append(means["TaskNorm-I"] > means["CBN"])
            label = LEARNERS[KINDS[name].learner].label
            words.append(f"{label}: TaskNorm-I {means['TaskNorm-I']:.1f}, CBN {means['CBN']:.1f}")
    return _finding(passed, words)


def protonets_less_sensitive(records: Sequence[Record]) -> Finding:
    """In every setting with all norms, their accuracies span a smaller range with ProtoNets than with MAML."""
    maml, protonets = _scores(records, "maml_results"), _scores(records, "protonets_results")
    norms = set(published()["maml_results"].average_rank) & set(published()["protonets_results"].average_rank)
    passed, words = [], []
    for row in maml:
        if norms <= set(maml[row]) and norms <= set(protonets.get(row, {})):
            wide, narrow = (_range(table[row][norm] for norm in norms) for table in (maml, protonets))
            passed.append(narrow < wide)
            words.append(f"{row} {narrow:.1f} points with ProtoNets and {wide:.1f} with MAML, over {len(norms)} norms")
    return _finding(passed, words)


def alpha_tends_to_one(records: Sequence[Record], near_one: float, context_size: int, layers: float) -> Finding:
    """In at least this share of the layers, alpha is at least `near_one` for a context of this size."""
    passed, words = [], []
    for record in _functional(records):
        alphas = [sigmoid(scale * context_size + offset) for scale, offset in _layers(record)]
        near = sum(alpha >= near_one for alpha in alphas)
        passed.append(near >= layers * len(alphas))
        words.append(
            f"{record.settings.kind.label}: {near} of {len(alphas)} layers, lowest {min(alphas):.2f}, "
            f"median {statistics.median(alphas):.2f}"
        )
    return _finding(passed, words)


def scale_matters(records: Sequence[Record], zero: float, layers: float) -> Finding:
    """|OFFSET| < zero, and |SCALE| |D| > zero, each in at least this share of the layers; |D| is the mean context size.

    Adam moves a parameter by about the learning rate in each step. A training too short to move OFFSET to `zero`
    shows nothing.
    """
    passed, words = [], []
    runs = _functional(records)
    long = [r for r in runs if r.settings.iterations * r.settings.learning_rate >= zero]
    if runs and not long:
        return Finding(
            "not tested", f"{max(r.settings.iterations for r in runs):,} iterations at most: too short to move OFFSET"
        )
    for record in long:
        alphas, size = _layers(record), record.result["contexts"]
        small = sum(abs(offset) < zero for _, offset in alphas)
        larger = sum(abs(scale) * size > zero for scale, offset in alphas)
        passed.append(min(small, larger) >= layers * len(alphas))
        scales, offsets = zip(*alphas, strict=True)
        words.append(
            f"{record.settings.kind.label}: OFFSET small in {small}, SCALE large in {larger} of {len(alphas)} layers; "
            f"SCALE {min(scales):.2g} to {max(scales):.2g}, OFFSET {min(offsets):.2g} to {max(offsets):.2g}, "
            f"mean |D| {size:.0f}"
        )
    return _finding(passed, words)


def rn_is_special_case(records: Sequence[Record], tolerance: float) -> Finding:
    """At meta-test, RN and TaskNorm-I with alpha = n / (n + 1) give targets the same values; needs no records."""
    generator = torch.Generator().manual_seed(0)
    differences = []
    for size in (1, 5, 25):
        shapes = ((size, 4, 6, 6), (7, 4, 6, 6))
        seen, unseen = (3 * torch.randn(shape, generator=generator, dtype=torch.float64) + 1 for shape in shapes)
        rn = RN(4, dtype=torch.float64).eval()
        task_norm = TaskNormI(4, alpha="independent-shared", dtype=torch.float64).eval()
        with torch.no_grad():
            task_norm.alpha_offset.fill_(math.log(size))  # sigmoid(log n) = n / (n + 1)
            with context(rn):
                rn(seen)
            with context(task_norm):
                task_norm(seen)
            with target(rn), target(task_norm):
                differences.append((rn(unseen) - task_norm(unseen)).abs().max().item())
    return _finding([max(differences) < tolerance], [f"largest difference {max(differences):.1e}, for n = 1, 5 and 25"])


def cost_about_cbn(records: Sequence[Record], about: float) -> Finding:
    """The median over settings of TaskNorm-I's seconds per iteration, divided by CBN's, is at most `about`."""
    ratios = {}
    counted = set()  # each training once: one of ProtoNets serves tests of 5 and of 20 ways
    for name in ("maml_results", "protonets_results", "cnaps_meta_dataset", "protonets_meta_dataset"):
        for row in ["Omniglot"] if KINDS[name].variable else published()[name].rows:
            runs = {r.settings.trained_norm: r for r in _runs(records, name, row)}
            if {"TaskNorm-I", "CBN"} <= set(runs) and runs["CBN"].folder not in counted:
                counted.add(runs["CBN"].folder)
                ours, cbn = (runs[norm].result["seconds_per_iteration"] for norm in ("TaskNorm-I", "CBN"))
                ratios[f"{LEARNERS[KINDS[name].learner].label} {'Meta-Dataset' if KINDS[name].variable else row}"] = (
                    ours / cbn
                )
    median = statistics.median(ratios.values()) if ratios else math.inf
    words = (f"{row} {ratio:.2f}" for row, ratio in ratios.items())
    return _finding([median <= about] if ratios else [], [f"median {median:.2f}; ratios: {', '.join(words)}"])


def _scores(records: Sequence[Record], name: str) -> dict[str, dict[str, Accuracy]]:
    return {row: {c: e.accuracy for c, e in line.items()} for row, line in entries(records, name).items()}


def _trained(name: str) -> set[str]:
    """The trainings behind a table's norms: TBN, CBN and RN share one."""
    norms = (Column.named(c).norm for c in published()[name].average_rank)
    return {"CBN" if norm in SHARED else norm for norm in norms}


def _runs(records: Sequence[Record], name: str, row: str) -> list[Record]:
    kind = KINDS[name]
    runs = trainings(records, kind.learner, row, kind.variable)
    return [r for r in runs if r.settings.alpha in (None, kind.alpha)]


def _functional(records: Sequence[Record]) -> list[Record]:
    """The longest run of each learner on tasks of variable size with TaskNorm-I and its functional, shared alpha."""
    runs = [r for name in ("cnaps_meta_dataset", "protonets_meta_dataset") for r in _runs(records, name, "Omniglot")]
    return [r for r in runs if r.settings.norm == "TaskNorm-I" and extractor_alphas(r)]


def _layers(record: Record) -> list[tuple[float, float]]:
    return [(layer["scale"], layer["offset"]) for layer in extractor_alphas(record)]


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), for any x."""
    return 0.5 * (1 + math.tanh(x / 2))


def _transductive(column: str) -> bool:
    return NORMS[Column.named(column).norm].transductive


def _range(scores: Iterable[Accuracy]) -> float:
    means = [score.percent for score in scores]
    return max(means) - min(means)


def _finding(passed: Sequence[bool], words: Iterable[str]) -> Finding:
    """The finding: it holds if there is something to check and all of it passed."""
    if not passed:
        return NOT_TESTED
    count = f"true in {sum(passed)} of {len(passed)} cases: " if len(passed) > 1 else ""
    return Finding("holds" if all(passed) else "does not hold", count + "; ".join(words))
