"""What the papers prescribe for each learner and source: the settings that a run has unless it says otherwise.

MAML as in the reference code of Finn et al. (2017), ProtoNets as in Snell et al. (2017), CNAPs as in Requeima et al.
(2019), all as the TaskNorm paper used them (appendix B).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tasknorm.norms import NORMS, TaskNorm

Values = dict[str, Any]

CHARACTERS = ("glyphs", "omniglot", "omniglot_vinyals", "omniglot_alphabets")  # grey drawings of 28 x 28

ALL: Values = {"learning_rate": 1e-3, "iterations": 60_000}
ON_CHARACTERS: Values = {"image_size": 28, "scale": "unit"}
ON_PHOTOS: Values = {"image_size": 84, "scale": "unit"}

MAML: Values = {"affine": "offset", "eps": 1e-3, "first_order": True, "test_steps": 10, "validate_every": 500}
MAML_CHARACTERS: Values = {"net": "maml-omniglot", "meta_batch": 32, "inner_lr": 0.4, "inner_steps": 1}
MAML_MANY_WAYS: Values = {"meta_batch": 16, "inner_lr": 0.1, "inner_steps": 5}  # 20-way characters
MAML_PHOTOS: Values = {
    "net": "maml-imagenet",
    "meta_batch": 4,
    "inner_lr": 0.01,
    "inner_steps": 5,
    "train_targets": 15,
    "clip": 10.0,
}

PROTONETS: Values = {
    "net": "protonets-conv4",
    "affine": "all",
    "eps": 1e-5,
    "reduction": "mean",
    "meta_batch": 1,
    "targets": 15,
    "halve_every": 2000,
    "validate_every": 100,
}
PROTONETS_CHARACTERS: Values = {"train_way": 60, "train_targets": 5}
PROTONETS_PHOTOS: Values = {"train_targets": 15, "scale": "standard"}

# On Meta-Dataset, CNAPs and ProtoNets alike. Its authors count tasks, 16 for each step of the optimizer.
META_DATASET: Values = {
    "affine": "all",
    "eps": 1e-5,
    "meta_batch": 16,
    "sampling": "variable",
    "targets": 10,
    "train_targets": 10,
    "scale": "signed",
    "validate_every": 625,
    "validation_tasks": 200,
    "iterations": 60_000 // 16,
}
# All weights of the ResNet are trained, from pretrained ones; the sum over targets, over 16 tasks, is minimised.
PROTONETS_META_DATASET: Values = {"reduction": "sum", "halve_every": 0}
TASKS = {"Baseline": 110_000, "TBN": 70_000, "CBN": 70_000, "BRN": 70_000, "RN": 70_000, "LN": 110_000, "IN": 200_000}
CNAPS: Values = {"film": True, "regulariser": 0.016, "encoder_filters": 64}  # 0.001 for each of 16 tasks


def protocol(
    learner: str, sources: Sequence[str], norm: str, way: int, shot: int, sampling: str | None = None
) -> Values:
    """The settings of the papers' experiment that is nearest to this one.

    Args:
        learner: its name.
        sources: of training tasks; ProtoNets on several are those of the Meta-Dataset experiments.
        norm: its label.
        way, shot: of test tasks, if they are fixed.
        sampling: "fixed" or "variable", if it has been chosen.

    >>> protocol("maml", ["omniglot"], "TaskNorm-I", way=20, shot=1)["inner_steps"]
    5
    """
    characters = all(source in CHARACTERS for source in sources)
    meta_dataset = learner == "cnaps" or sampling == "variable" or (len(sources) > 1 and sampling is None)
    values = ALL | (ON_CHARACTERS if characters else ON_PHOTOS)
    if learner == "maml":
        values |= MAML | {"train_way": way, "targets": shot, "train_targets": shot}
        values |= MAML_CHARACTERS if characters else MAML_PHOTOS
        values |= MAML_MANY_WAYS if characters and way >= 20 else {}
        values |= _turned(sources)
    elif learner == "protonets" and not meta_dataset:
        values |= PROTONETS | _turned(sources)
        values |= PROTONETS_CHARACTERS if characters else PROTONETS_PHOTOS | {"train_way": 30 if shot < 5 else 20}
    elif learner in ("protonets", "cnaps"):
        values |= META_DATASET | {"train_way": way, "net": "resnet-small" if characters else "resnet18"}
        values |= (
            CNAPS | {"iterations": TASKS.get(norm, 60_000) // 16} if learner == "cnaps" else PROTONETS_META_DATASET
        )
    if norm in NORMS and issubclass(NORMS[norm], TaskNorm):
        # Where the context's size is fixed, alpha does not depend on it (appendix E).
        functional = learner != "maml" and meta_dataset
        values |= {"alpha": "functional-shared" if functional else "independent-shared"}
    return values


def _turned(sources: Sequence[str]) -> Values:
    """Each class of a task turned by a multiple of 90 degrees, in all splits."""
    return {"rotate": all(source in ("omniglot", "omniglot_alphabets") for source in sources)}
