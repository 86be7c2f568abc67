"""Each claim of the paper as a check on records: what it found, in words and numbers.

Accuracies are those of the tables: MAML's after the gradient step chosen on validation. Two of them differ where
`|a - b| > sqrt(ci_a^2 + ci_b^2)`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import torch

from tasknorm.norms import NORMS, RN, TaskNormI
from tasknorm.phase import context, target
from tasknorm.report.average_rank import average_ranks
from tasknorm.report.lookup import extractor_alphas, trainings
from tasknorm.report.places import KINDS, PRINTED, Column, entries, ranked_rows
from tasknorm.report.published import published
from tasknorm.report.score import Score, differ
from tasknorm.report.speed import mean_training_accuracies
from tasknorm.runs.record import Record
from tasknorm.settings.training import SHARED

Verdict = Literal["holds", "does not hold", "not tested"]
COLLAPSE = 0.75  # of the accuracy all at once
LARGE = 500  # the largest context of Meta-Dataset's test tasks
MOST = 0.75  # of the layers
ZERO = 0.5  # in alpha's logit: less moves alpha from 1/2 to 0.62 at most
ABOUT = 1.25  # times as long


class Finding(NamedTuple):
    """What a check found, and the numbers that it used."""

    verdict: Verdict
    numbers: str


NOT_TESTED = Finding("not tested", "no runs for it among the records")


def tbn_collapses(records: Sequence[Record], targets: str) -> Finding:
    """TBN's accuracy by example or by class differs from that all at once and is under three quarters of it."""
    pairs = {}
    for name, alone in (("maml_results", f"TBN-{targets}"), ("transduction_issues", f"TBN/{targets.title()}")):
        for row, scores in _scores(records, name).items():
            whole = scores.get("TBN" if name == "maml_results" else "TBN/All")
            if whole and alone in scores:
                pairs[f"{PRINTED[KINDS[name].learner]} {row}"] = (whole, scores[alone])
    fallen = [differ(a, b) and b.mean < COLLAPSE * a.mean for a, b in pairs.values()]
    return _finding(fallen, (f"{row} {a.mean:.1f} to {b.mean:.1f}" for row, (a, b) in pairs.items()))


def running_averages_fail(records: Sequence[Record]) -> Finding:
    """CBN and BRN keep less than half of the best non-transductive norm's accuracy above chance, in every setting."""
    passed, words = [], []
    for row, scores in _scores(records, "maml_results").items():
        chance = 100 / int(row.split("-")[1])
        others = [s.mean for c, s in scores.items() if c not in ("CBN", "BRN") and not _transductive(c)]
        if {"CBN", "BRN"} <= set(scores) and others:
            cbn, brn = scores["CBN"].mean, scores["BRN"].mean
            passed.append(max(cbn, brn) - chance < 0.5 * (max(others) - chance))
            words.append(f"{row} CBN {cbn:.1f}, BRN {brn:.1f}, best other {max(others):.1f}, chance {chance:.0f}")
    return _finding(passed, words)


def best_rank(records: Sequence[Record], name: str, column: str) -> Finding:
    """No other column that is not transductive has a lower average rank; ranks over the complete rows.

    The best of a few norms says nothing of the best of all: every column of the paper's must have been run.
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
    return _finding([lowest], [f"shared with {' and '.join(alike)}; {words}" if lowest and alike else words])


def instance_based_slowest(records: Sequence[Record]) -> Finding:
    """On Meta-Dataset LN and IN have the two lowest mean training accuracies, over the iterations that all share."""
    passed, words = [], []
    for name in ("cnaps_meta_dataset", "protonets_meta_dataset"):
        means = mean_training_accuracies(_runs(records, name, "Omniglot"))
        if set(means) == _trained(name):
            slowest = sorted(means, key=lambda norm: means[norm])
            passed.append(set(slowest[:2]) == {"LN", "IN"})
            words.append(
                f"{PRINTED[KINDS[name].learner]}: " + ", ".join(f"{norm} {means[norm]:.1f}" for norm in slowest)
            )
    return _finding(passed, words)


def faster_than_cbn(records: Sequence[Record]) -> Finding:
    """TaskNorm-I's mean training accuracy is above CBN's on Meta-Dataset.

    With MAML the paper has the training that CBN shares with TBN as the fastest of all.
    """
    passed, words = [], []
    for name in ("cnaps_meta_dataset", "protonets_meta_dataset"):
        means = mean_training_accuracies(_runs(records, name, "Omniglot"))
        if {"TaskNorm-I", "CBN"} <= set(means):
            passed.append(means["TaskNorm-I"] > means["CBN"])
            words.append(f"{PRINTED[KINDS[name].learner]} {means['TaskNorm-I']:.1f} against {means['CBN']:.1f}")
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
            words.append(f"{row} {narrow:.1f} against {wide:.1f} points over {len(norms)} norms")
    return _finding(passed, words)


def alpha_tends_to_one(records: Sequence[Record]) -> Finding:
    """In three quarters of the layers alpha is at least 0.9 for a context of 500 images."""
    passed, words = [], []
    for record in _functional(records):
        alphas = [sigmoid(scale * LARGE + offset) for scale, offset in _layers(record)]
        near = sum(alpha >= 0.9 for alpha in alphas)
        passed.append(near >= MOST * len(alphas))
        words.append(
            f"{PRINTED[record.settings.learner]}: {near} of {len(alphas)} layers, lowest {min(alphas):.2f}, "
            f"median {statistics.median(alphas):.2f}"
        )
    return _finding(passed, words)


def scale_matters(records: Sequence[Record]) -> Finding:
    """In three quarters of the layers |OFFSET| < 0.5 and |SCALE| |D| > 0.5, at the mean |D| of meta-training.

    Adam moves a parameter by about the learning rate: a training too short to bring OFFSET to 0.5 tells nothing.
    """
    passed, words = [], []
    runs = _functional(records)
    if runs and all(map(_too_short, runs)):
        return Finding("not tested", f"at most {max(r.settings.iterations for r in runs):,} iterations: too short")
    for record in (r for r in runs if not _too_short(r)):
        layers, size = _layers(record), record.result["contexts"]
        small = sum(abs(offset) < ZERO for _, offset in layers)
        larger = sum(abs(scale) * size > ZERO for scale, offset in layers)
        passed.append(min(small, larger) >= MOST * len(layers))
        scales, offsets = zip(*layers, strict=True)
        words.append(
            f"{PRINTED[record.settings.learner]}: OFFSET small in {small}, SCALE large in {larger} of {len(layers)}; "
            f"SCALE {min(scales):.2g} to {max(scales):.2g}, OFFSET {min(offsets):.2g} to {max(offsets):.2g}, "
            f"mean |D| {size:.0f}"
        )
    return _finding(passed, words)


def rn_is_special_case() -> Finding:
    """At meta-test, targets under RN and under TaskNorm-I with alpha = n / (n + 1) differ by less than 1e-10."""
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
    return _finding([max(differences) < 1e-10], [f"largest difference {max(differences):.1e}, for n = 1, 5 and 25"])


def cost_about_cbn(records: Sequence[Record]) -> Finding:
    """The median over settings of TaskNorm-I's seconds per iteration, divided by CBN's, is at most 1.25."""
    ratios = {}
    counted = set()  # a training of ProtoNets serves tests of 5 and 20 ways
    for name in ("maml_results", "protonets_results", "cnaps_meta_dataset", "protonets_meta_dataset"):
        for row in ["Omniglot"] if KINDS[name].variable else published()[name].rows:
            runs = {r.settings.trained_norm: r for r in _runs(records, name, row)}
            if {"TaskNorm-I", "CBN"} <= set(runs) and runs["CBN"].folder not in counted:
                counted.add(runs["CBN"].folder)
                ours, cbn = (runs[norm].result["seconds_per_iteration"] for norm in ("TaskNorm-I", "CBN"))
                ratios[f"{PRINTED[KINDS[name].learner]} {'Meta-Dataset' if KINDS[name].variable else row}"] = ours / cbn
    median = statistics.median(ratios.values()) if ratios else math.inf
    words = (f"{row} {ratio:.2f}" for row, ratio in ratios.items())
    return _finding([median <= ABOUT] if ratios else [], [f"median {median:.2f}; ratios: {', '.join(words)}"])


def _scores(records: Sequence[Record], name: str) -> dict[str, dict[str, Score]]:
    return {row: {c: e.score for c, e in line.items()} for row, line in entries(records, name).items()}


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


def _too_short(record: Record) -> bool:
    return record.settings.iterations * record.settings.learning_rate < ZERO


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), for any x."""
    return 0.5 * (1 + math.tanh(x / 2))


def _transductive(column: str) -> bool:
    return NORMS[Column.named(column).norm].transductive


def _range(scores: Iterable[Score]) -> float:
    means = [score.mean for score in scores]
    return max(means) - min(means)


def _finding(passed: Sequence[bool], words: Iterable[str]) -> Finding:
    """Holds if there is something to check and all of it passed."""
    if not passed:
        return NOT_TESTED
    count = f"{sum(passed)} of {len(passed)} do: " if len(passed) > 1 else ""
    return Finding("holds" if all(passed) else "does not hold", count + "; ".join(words))
