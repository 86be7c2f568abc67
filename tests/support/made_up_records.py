"""Records of runs that never were: the paper's own accuracies, with made-up curves."""

from __future__ import annotations

import math
from pathlib import Path

from tasknorm.report.lookup import DATA_SETS
from tasknorm.report.places import KINDS, Column
from tasknorm.report.published import published
from tasknorm.runs import Record
from tasknorm.settings import SHARED, Settings

SMALL_META_DATASET = "tiny_imagenet,omniglot,cu_birds,quickdraw,vgg_flower"
SPEED = {"TaskNorm-I": 4.0, "TaskNorm-L": 3.5, "TBN": 3.2, "CBN": 3.0, "RN": 2.9, "LN": 1.2, "IN": 1.0}


def row(norm, source, way, shot, accuracy, interval, targets="all", maml=False, weights=("final", "best")):
    """Rows of a result's accuracies, for final and best weights."""
    made = []
    for which in weights:
        values = {"accuracy": accuracy, "interval": interval}
        made.append(
            {"weights": which, "norm": norm, "source": source, "way": way, "shot": shot, "targets": targets}
            | {"tasks": 600, "label": "transductive" if norm == "TBN" else "non-transductive", **values}
        )
        if maml:
            maximum = {"accuracy": min(1.0, accuracy + 0.001), "interval": interval}
            made[-1] |= {"step": 3, "maximum": maximum, "steps": [values] * 9 + [maximum]}
    return made


def record(accuracies, layers=4, **settings) -> Record:
    """A finished run with these rows; curves fall and rise with the norm's speed."""
    made = Settings.of({"iterations": 1000, "device": "cpu"} | settings)
    at = [100 * n for n in range(1, 11)]
    names = made.tested_norms

    def rising(norm):
        return [0.2 + 0.7 * (1 - math.exp(-SPEED.get(norm, 2.0) * i / 1000)) for i in at]

    functional = made.alpha is not None and made.alpha.startswith("functional")
    scales = [0.02 * (1 + n) if functional else None for n in range(layers)]
    result = {
        "tasknorm": "0.1.0",
        "torch": "2.13.0",
        "threads": 1,
        "seconds": 120.0,
        "seconds_per_iteration": 0.11 if made.norm.startswith("TaskNorm") else 0.1,
        "seconds_per_test_task": dict.fromkeys(names, 0.004),
        "accuracies": accuracies,
        "alphas": [
            {"layer": f"layer{n + 1}.0.norm1", "scale": scale, "offset": 0.01 * n} for n, scale in enumerate(scales)
        ]
        if made.alpha
        else [],
        "contexts": 92.1,
        "curve": {
            "iteration": at,
            "loss": [1.6 * math.exp(-SPEED.get(made.norm, 2.0) * i / 1000) for i in at],
            "accuracy": rising(made.norm),
            "seconds": [i * 0.11 for i in at],
        },
        "validation": {
            "iteration": at,
            "seconds": [i * 0.12 for i in at],
            "accuracy": {norm: rising(norm) for norm in names},
        },
    }
    name = "-".join(str(settings.get(key, "")) for key in ("learner", "source", "norm", "way", "shot", "alpha"))
    return Record(Path("runs") / name.replace(",", "+"), made, result)


def small(name: str) -> list[Record]:
    """The runs of a table with tasks of fixed size, one per setting and training."""
    table, kind = published()[name], KINDS[name]
    made = []
    for place, scores in table.rows.items():
        data_set, way, shot = place.rsplit("-", 2)
        source = DATA_SETS[data_set][0]
        for trained, columns in trainings(name).items():
            rows = [
                r
                for c in columns
                for r in row(
                    c[1].norm,
                    source,
                    int(way),
                    int(shot),
                    *fractions(scores[c[0]]),
                    c[1].targets,
                    kind.learner == "maml",
                )
            ]
            made.append(
                record(rows, learner=kind.learner, source=source, norm=trained[0], way=way, shot=shot, alpha=trained[1])
            )
    return made


def variable(name: str, missing: tuple[str, ...] = ()) -> list[Record]:
    """The runs of a table on Meta-Dataset, one per training."""
    table, kind = published()[name], KINDS[name]
    made = []
    for trained, columns in trainings(name).items():
        rows = [
            r
            for c in columns
            for place, scores in table.rows.items()
            if place not in missing
            for r in row(c[1].norm, DATA_SETS[place][-1], None, None, *fractions(scores[c[0]]), c[1].targets)
        ]
        more = {"net": "resnet-small", "image_size": 32, "meta_batch": 16, "sampling": "variable"}
        more |= {"pretrained": "extractor.safetensors"}
        made.append(
            record(rows, learner=kind.learner, source=SMALL_META_DATASET, norm=trained[0], alpha=trained[1], **more)
        )
    return made


def trainings(name: str) -> dict[tuple[str, str | None], list[tuple[str, Column]]]:
    """The columns of a table by the training, norm and alpha, that serves them."""
    made: dict[tuple[str, str | None], list[tuple[str, Column]]] = {}
    for c in published()[name].columns:
        column = Column.named(c)
        alpha = (column.alpha or KINDS[name].alpha) if column.norm.startswith("TaskNorm") else None
        made.setdefault(("CBN" if column.norm in SHARED else column.norm, alpha), []).append((c, column))
    return made


def fractions(score):
    return score.mean, score.interval


def everything() -> list[Record]:
    """Runs for all of the paper's tables, without the data sets that could not be had."""
    not_had = ("Aircraft", "Fungi", "MSCOCO")
    fixed = ("maml_results", "protonets_results", "parameterization_maml")
    wide = ("cnaps_meta_dataset", "protonets_meta_dataset", "transduction_issues", "parameterization_cnaps")
    return [r for name in fixed for r in small(name)] + [r for name in wide for r in variable(name, not_had)]


def maml_and_more() -> list[Record]:
    """A few runs of MAML in which TaskNorm-I is not the best, and one of CNAPs: enough for a small report."""
    made = []
    for norm, accuracy in (("CBN", 0.2), ("IN", 0.9), ("TaskNorm-I", 0.8)):
        rows = row(norm, "omniglot", 5, 5, accuracy, 0.01, maml=True)
        made.append(record(rows, learner="maml", source="omniglot", norm=norm, shot=5))
    return [*made, *(r for r in variable("cnaps_meta_dataset") if r.settings.norm == "TaskNorm-I")]
