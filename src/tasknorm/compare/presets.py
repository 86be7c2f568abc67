"""What a comparison trains: settings of its own, shorter than the papers', that belong to the question.

They depend on the learner and on whether the source holds characters, never on the machine: the same question gets the
same trainings everywhere. MAML's on characters was chosen on validation tasks of glyphs, with seeds that no comparison
uses by default, and is as long as two minutes allow; the others are the papers' settings, shortened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasknorm.learners import CHARACTERS, LEARNERS, Learner
from tasknorm.nets import is_backbone
from tasknorm.norms import NORMS, TaskNorm
from tasknorm.settings import PretrainSettings, Settings, for_tuning

COMPARED = ("TBN", "CBN", "RN", "LN", "IN", "MetaBN", "TaskNorm-L", "TaskNorm-I")
SEEDS = 3
VALIDATIONS = 3  # of each training, for its curve
CHECKPOINTS = 6  # of each training

ALL: dict[str, Any] = {
    "sampling": "fixed",
    "targets": 5,
    "train_targets": 5,
    "validation_tasks": 20,
    "test_tasks": 200,
    "test_targets": "all,example,class",
    "test_weights": "final",
    "skip_proven": True,
}
PRESETS: dict[str, dict[str, Any]] = {
    "maml": {
        "iterations": 200,
        "meta_batch": 8,
        "filters": 32,
        "learning_rate": 0.01,
        "train_targets": 1,
        "test_steps": 3,
    },
    "protonets": {"iterations": 200, "meta_batch": 2, "filters": 32},
    "cnaps": {"iterations": 100, "meta_batch": 4},
    "ncm": {},
}
# Variants of learners that can be compared by a name of their own: the learner, and what makes the variant.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "anil": ("maml", {"anil": True, "inner_steps": 5, "test_steps": 5}),
    "maml-step-norms": ("maml", {"step_norms": True, "inner_steps": 3}),
}
ON_PHOTOS: dict[str, dict[str, Any]] = {
    "maml": {"learning_rate": 0.001, "meta_batch": 4, "image_size": 32},
    "protonets": {"image_size": 32},
    "cnaps": {"net": "resnet-small", "image_size": 32},
    "ncm": {"net": "resnet-small", "image_size": 32},
}
EPOCHS = 3  # of pretraining
COMPARED_TUNED = ("Baseline", "CBN", "TBN", "RN", "MetaBN", "TaskNorm-r", "TaskNorm-I")  # for a pretrained network
SHOT_TUNED = 5
# A pretrained network is tested as it was, with each norm at its start, and tuned; nothing is chosen on validation.
TUNED: dict[str, Any] = {"as_it_was": False, "validate_every": 0, "test_weights": "all"}


def is_tuned(question: Mapping[str, Any]) -> bool:
    """Whether a question is about tuning a pretrained network of others."""
    return is_backbone(str(question.get("net") or ""))


def kind_of(learner: str) -> type[Learner] | None:
    """The class of a learner, or of the learner that a variant is of; None if the name is unknown."""
    return LEARNERS.get(VARIANTS.get(learner, (learner,))[0])


def settings_of(question: Mapping[str, Any], norm: str) -> Settings:
    """The settings of one training.

    Args:
        question: what was asked for: learner or variant, source, way, shot, seed, fold, ...; it wins over the preset.
        norm: label of the norm.
    """
    name, variant = VARIANTS.get(question["learner"], (question["learner"], {}))
    question = dict(question) | {"learner": name}
    learner = LEARNERS.get(name)
    asked = {key: value for key, value in question.items() if value is not None}
    if is_tuned(question):
        return _tuning(asked, norm)
    common = ALL | {"train_way": asked.get("way")}
    common |= {"alpha": "functional-shared"} if issubclass(NORMS[norm], TaskNorm) else {}
    if learner is not None:
        common |= PRESETS.get(question["learner"], {})
        if not all(source in CHARACTERS for source in str(asked.get("source", "glyphs")).split(",")):
            common |= ON_PHOTOS.get(question["learner"], {})
        common |= variant
    if learner is not None and learner.meta_trained:
        iterations = int(asked.get("iterations") or common["iterations"] or 0)
        common |= {"validate_every": max(1, iterations // VALIDATIONS)}
        common |= {"checkpoint_every": max(1, iterations // CHECKPOINTS)}
    return Settings.of(common | asked | {"norm": norm})


def _tuning(asked: Mapping[str, Any], norm: str) -> Settings:
    tested = {name: ALL[name] for name in ("test_tasks", "test_targets", "skip_proven", "validation_tasks")}
    asked = tested | dict(asked) | {"norm": norm}
    filled = for_tuning(asked)
    if LEARNERS.get(filled["learner"], Learner).meta_trained:
        return Settings.of(filled | TUNED)
    untuned = {"iterations": 0, "tuned": "all", "as_it_was": False, "validate_every": 0, "test_weights": "final"}
    return Settings.of(filled | untuned)


def pretraining_of(settings: Settings) -> PretrainSettings:
    """A short pretraining of the extractor, on the training classes of the same source."""
    return PretrainSettings.of(
        {
            "source": settings.source,
            "net": settings.net,
            "image_size": settings.image_size,
            "scale": settings.scale,
            "resize": settings.resize,
            "epochs": EPOCHS,
            "divide_every": EPOCHS - 1,
            "batch": 64,
            "crop": 2,
            "flip": settings.source not in CHARACTERS,
            "skip_bad": settings.skip_bad,
            "fold": settings.fold,
            "seed": settings.seed,
        }
    )
