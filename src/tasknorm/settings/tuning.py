"""The settings of a tuning: minutes of meta-training of what is small, on top of a pretrained network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasknorm.errors import SettingsError
from tasknorm.norms import NORMS, TaskNorm

TUNING: dict[str, Any] = {
    "learner": "protonets",
    "norm": "Baseline",
    "norm_start": "preserve",
    "running": "fixed",
    "tuned": "small",
    "as_it_was": True,
    "sampling": "fixed",
    "way": 5,
    "shot": 5,
    "targets": 5,
    "train_targets": 5,
    "image_size": 96,
    "scale": "standard",
    "rotate": False,
    "iterations": 120,
    "meta_batch": 1,
    "learning_rate": 2e-3,
    "halve_every": 0,
    "validate_every": 30,
    "validation_tasks": 50,
    "checkpoint_every": 30,
    "test_tasks": 200,
    "test_weights": "all",
}
OF_LEARNER: dict[str, dict[str, Any]] = {"protonets": {"reduction": "mean", "temperature": True}}


def for_tuning(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given settings, and those of a tuning for the rest; `Settings.of` takes them.

    Alpha may depend on the context's size, since a tuned network adapts to contexts of any size.

    Raises:
        SettingsError: if no network is named.
    """
    chosen = {key: value for key, value in given.items() if value is not None}
    if "net" not in chosen:
        raise SettingsError(
            "tuning needs a pretrained network, and none is named; set net, such as "
            "net=tasknorm.nets:efficientnet_lite0 or net=hf:FOLDER, and pretrained for its weights"
        )
    named = TUNING | chosen
    values = TUNING | {"train_way": named["way"]} | OF_LEARNER.get(str(named["learner"]), {})
    norm = NORMS.get(str(named["norm"]))
    if norm is not None and issubclass(norm, TaskNorm):
        values |= {"alpha": "functional-shared"}
    return values | chosen
