"""What the papers prescribe for each learner and source: the settings that a run has unless it says otherwise.

MAML as in the reference code of Finn et al. (2017), ProtoNets as in Snell et al. (2017), CNAPs as in Requeima et al.
(2019), all as the TaskNorm paper used them (appendix B).
"""

from __future__ import annotations

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

# CNAPs' authors count tasks, 16 for each step of the optimizer: 60,000 for TaskNorm.
TASKS = {"Baseline": 110_000, "TBN": 70_000, "CBN": 70_000, "BRN": 70_000, "RN": 70_000, "LN": 110_000, "IN": 200_000}
CNAPS: Values = {
    "affine": "all",
    "eps": 1e-5,
    "film": True,
    "regulariser": 0.016,  # 0.001 for each of 16 tasks
    "meta_batch": 16,
    "sampling": "variable",
    "targets": 10,
    "train_targets": 10,
    "scale": "signed",
    "validate_every": 625,
}


def protocol(learner: str, source: str, norm: str, way: int, shot: int) -> Values:
    """The settings of the papers' experiment that is nearest to this one.

    >>> protocol("maml", "omniglot", "TaskNorm-I", way=20, shot=1)["inner_steps"]
    5
    """
    characters = source in CHARACTERS
    values = ALL | (ON_CHARACTERS if characters else ON_PHOTOS)
    if learner == "maml":
        values |= MAML | {"train_way": way, "targets": shot, "train_targets": shot}
        values |= MAML_CHARACTERS if characters else MAML_PHOTOS
        values |= MAML_MANY_WAYS if characters and way >= 20 else {}
        # Each class of a task turned by a multiple of 90 degrees, in all splits.
        values |= {"rotate": source in ("omniglot", "omniglot_alphabets")}
    if learner == "protonets":
        values |= PROTONETS
        values |= PROTONETS_CHARACTERS if characters else PROTONETS_PHOTOS | {"train_way": 30 if shot < 5 else 20}
        values |= {"rotate": source in ("omniglot", "omniglot_alphabets")}
    if learner == "cnaps":
        values |= CNAPS | {"train_way": way, "iterations": TASKS.get(norm, 60_000) // 16}
        values |= {"net": "resnet-small" if characters else "resnet18"}
    if norm in NORMS and issubclass(NORMS[norm], TaskNorm):
        # Where the context's size is fixed, alpha does not depend on it (appendix E).
        values |= {"alpha": "functional-shared" if learner == "cnaps" else "independent-shared"}
    return values
