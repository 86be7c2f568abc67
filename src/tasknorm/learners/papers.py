"""What several learners' papers prescribe alike; what is one learner's alone stands in its own file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Values = dict[str, Any]

CHARACTERS = ("glyphs", "omniglot", "omniglot_vinyals", "omniglot_alphabets")  # grey drawings of 28 x 28

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


@dataclass(frozen=True)
class Asked:
    """What a run is asked for, as far as the papers' settings depend on it.

    Args:
        sources: of training tasks.
        norm: its label.
        way, shot: of test tasks, if they are fixed.
        sampling: "fixed" or "variable"; None if it was not chosen.
    """

    sources: Sequence[str]
    norm: str
    way: int
    shot: int
    sampling: str | None = None

    @property
    def characters(self) -> bool:
        """Whether all sources are grey drawings of characters."""
        return all(source in CHARACTERS for source in self.sources)

    @property
    def meta_dataset(self) -> bool:
        """Whether tasks are to be as in Meta-Dataset: asked for, or several sources and nothing asked for."""
        return self.sampling == "variable" or (len(self.sources) > 1 and self.sampling is None)

    @property
    def turned(self) -> bool:
        """Whether each class of a task is turned by a multiple of 90 degrees, in all splits."""
        return all(source in ("omniglot", "omniglot_alphabets") for source in self.sources)


def meta_dataset_net(asked: Asked) -> str:
    """CNAPs' ResNet-18, or a smaller one for characters."""
    return "resnet-small" if asked.characters else "resnet18"
