"""The figures that can be drawn from some records, each with a description in words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tasknorm.evaluation import Accuracy
from tasknorm.learners import LEARNERS
from tasknorm.report.checks import sigmoid
from tasknorm.report.drawing import SERIES, Picture
from tasknorm.report.figures import (
    accuracy_against_shot,
    accuracy_by_targets,
    alpha_curves,
    scale_offset_lines,
    training_curves,
)
from tasknorm.report.lookup import DATA_SETS, extractor_alphas, is_papers, trained_tasks, trainings
from tasknorm.report.places import KINDS, Kind
from tasknorm.report.published import published
from tasknorm.runs import Record

# For each figure of the paper: the table that its runs belong to, the row (None for the first with runs), the title.
CURVES = {
    "omniglot_5_5_training_curves": ("maml_results", "Omniglot-5-5", "MAML on Omniglot, 5-way 5-shot"),
    "proto_nets_o-20_1_training_curves": ("protonets_results", "Omniglot-20-1", "ProtoNets on Omniglot, 1-shot"),
    "cnaps_training_curves": ("cnaps_meta_dataset", "Omniglot", "CNAPs on Meta-Dataset"),
    "proto_nets_meta_dataset_training_curves": ("protonets_meta_dataset", "Omniglot", "ProtoNets on Meta-Dataset"),
    "maml_parameterization_training_curves": ("parameterization_maml", None, "Forms of alpha in TaskNorm-I, MAML"),
    "cnaps_parameterization_training_curves": ("parameterization_cnaps", None, "Forms of alpha in TaskNorm-I, CNAPs"),
}
FIGURES = ("maml_accuracy_vs_shot", *CURVES, "alpha_curves", "a_b_curves")


def gallery(records: Sequence[Record]) -> list[Picture]:
    """Every figure of the paper for which there are runs, then accuracy by how targets arrive, for each learner."""
    records = [record for record in records if is_papers(record)]
    found = [_against_shot(records), *(_curves(records, name) for name in CURVES), *_alphas(records)]
    found += [_by_targets(records, learner) for learner in LEARNERS]
    return [picture for picture in found if picture]


def _curves(records: Sequence[Record], name: str) -> Picture | None:
    table, row, title = CURVES[name]
    kind = KINDS[table]
    for place in [row] if row else published()[table].rows:
        runs = [r for r in trainings(records, kind.learner, place, kind.variable) if _belongs(r, kind)]
        if len(runs) > (kind.alpha is None):  # a comparison of forms of alpha needs two runs
            where = "" if row else f" on {'Meta-Dataset' if kind.variable else place}"
            return Picture(
                name,
                f"Training curves: {title}{where}",
                f"Curves against iteration and against training time. "
                f"{_last(runs, kind.alpha is None)}"
                + ("" if kind.alpha is None else " TBN, CBN and RN share one training, whose loss is drawn as CBN's."),
                training_curves(runs, by_alpha=kind.alpha is None),
            )
    return None


def _belongs(record: Record, kind: Kind) -> bool:
    if not record.result["curve"]["iteration"]:
        return False
    if kind.alpha is None:
        return record.settings.norm == "TaskNorm-I"
    return record.settings.alpha in (None, kind.alpha)


def _last(runs: Sequence[Record], by_alpha: bool) -> str:
    last = [
        (values[-1], r.settings.alpha or norm if by_alpha else norm)
        for r in runs
        for norm, values in r.result["validation"]["accuracy"].items()
        if values
    ]
    words = ", ".join(f"{name} {100 * value:.1f} %" for value, name in sorted(last, reverse=True))
    ways = sorted({r.settings.way for r in runs if r.settings.sampling == "fixed"})
    tasks = f" ({' and '.join(map(str, ways))}-way)" if ways else ""
    return f"Validation accuracy{tasks} at the end: {words}." if words else "There was no validation."


def _against_shot(records: Sequence[Record]) -> Picture | None:
    """MAML's accuracy against shot, for the data set, way and number of training tasks with the most shots."""
    found: dict[tuple[str, int, int], dict[str, dict[int, Accuracy]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        for a in record.results:
            kept = (record.settings.learner, a.weights, a.targets) == ("maml", "final", "all")
            if kept and a.way and a.shot and record.settings.alpha in (None, "independent-shared"):
                found[a.source, a.way, trained_tasks(record)][a.norm][a.shot] = a.maximum
    series = {place: {n: s for n, s in norms.items() if len(s) > 2} for place, norms in found.items()}
    place = max(series, key=lambda p: sum(map(len, series[p].values())), default=None)
    if place is None or not series[place]:
        return None
    title = f"Accuracy against shot: MAML on {_data_set(place[0])}, {place[1]}-way"
    ends = ", ".join(
        f"{norm} {s[min(s)].percent:.1f} % with {min(s)} and {s[max(s)].percent:.1f} % with {max(s)}"
        for norm, s in sorted(series[place].items(), key=lambda item: SERIES.index(item[0]))
    )
    words = (
        f"Accuracy after the best gradient step against the number of context images per class, after {place[2]:,} "
        f"training tasks: {ends}."
    )
    return Picture("maml_accuracy_vs_shot", title, words, accuracy_against_shot(series[place]))


def _alphas(records: Sequence[Record]) -> list[Picture]:
    """alpha of TaskNorm-I with CNAPs, or with another learner if CNAPs has no run."""
    runs = [r for r in records if r.settings.norm == "TaskNorm-I" and r.settings.alpha == "functional-shared"]
    runs = [r for r in runs if extractor_alphas(r) and r.settings.kind.meta_trained]
    if not runs:
        return []
    order = list(LEARNERS)
    run = max(runs, key=lambda r: (order.index(r.settings.learner), r.settings.iterations * r.settings.meta_batch))
    layers, learner = extractor_alphas(run), run.settings.kind.label
    scales, offsets = [layer["scale"] for layer in layers], [layer["offset"] for layer in layers]
    at = [sigmoid(s * 25 + o) for s, o in zip(scales, offsets, strict=True)]
    words = f"One line for each of the {len(layers)} layers of the feature extractor. "
    return [
        Picture(
            "alpha_curves",
            f"alpha against context size: TaskNorm-I, {learner}",
            f"{words}With 25 context images, alpha lies between {min(at):.2f} and {max(at):.2f}.",
            alpha_curves(run),
        ),
        Picture(
            "a_b_curves",
            f"SCALE |D| + OFFSET against context size: TaskNorm-I, {learner}",
            f"{words}SCALE lies between {min(scales):.2g} and {max(scales):.2g} per image, "
            f"OFFSET between {min(offsets):.2g} and {max(offsets):.2g}.",
            scale_offset_lines(run),
        ),
    ]


def _by_targets(records: Sequence[Record], learner: str) -> Picture | None:
    """Mean accuracies over the settings that were tested with targets in several ways; the longest run of each."""
    longest: dict[tuple[Any, ...], dict[str, Accuracy]] = {}
    for record in sorted(records, key=trained_tasks):
        rows = record.results if record.settings.learner == learner else []
        weights = "best" if not LEARNERS[learner].has_steps and any(a.weights == "best" for a in rows) else "final"
        found: dict[tuple[Any, ...], dict[str, Accuracy]] = defaultdict(dict)
        for a in rows:
            if a.weights == weights:
                found[a.norm, record.settings.alpha, a.source, a.way, a.shot][a.targets] = a.accuracy
        longest |= {setting: scores for setting, scores in found.items() if len(scores) > 1 and "all" in scores}
    settings: dict[str, list[dict[str, Accuracy]]] = defaultdict(list)
    for (norm, *_), scores in longest.items():
        settings[norm].append(scores)
    if not settings:
        return None
    means = {
        norm: {
            t: _mean([s[t] for s in rows if t in s]) for t in ("all", "example", "class") if any(t in s for s in rows)
        }
        for norm, rows in settings.items()
    }
    words = "; ".join(f"{n}: " + ", ".join(f"{t} {s}" for t, s in by.items()) for n, by in means.items())
    title = f"Targets all at once, by example and by class: {LEARNERS[learner].label}"
    said = f"Mean accuracy in % over the settings tested, by how targets arrive. {words}."
    return Picture(f"targets_{learner}", title, said, accuracy_by_targets(means))


def _mean(scores: Sequence[Accuracy]) -> Accuracy:
    return Accuracy(
        sum(s.mean for s in scores) / len(scores), math.sqrt(sum(s.interval**2 for s in scores)) / len(scores)
    )


def _data_set(source: str) -> str:
    return next((name for name, sources in DATA_SETS.items() if source in sources), source)
