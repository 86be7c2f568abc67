"""Settings that several learners' papers share; those of a single learner are in its own file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Values = dict[str, Any]

CHARACTERS = ("glyphs", "omniglot", "omniglot_vinyals", "omniglot_alphabets")  # grey drawings of 28 x 28

# CNAPs and ProtoNets on Meta-Dataset. The authors count tasks, of which each optimizer step takes 16.
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
    """The properties of a run on which the papers' settings depend.

    Args:
        sources: names of the sources of training tasks.
        norm: label of the norm.
        way, shot: those of test tasks; used if sampling is fixed.
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
        """Whether way and shot vary as in Meta-Dataset: by request, or by default if there are several sources."""
        return self.sampling == "variable" or (len(self.sources) > 1 and self.sampling is None)

    @property
    def turned(self) -> bool:
        """Whether each class of a task is rotated by a multiple of 90 degrees, in all splits."""
        return all(source in ("omniglot", "omniglot_alphabets") for source in self.sources)


def meta_dataset_net(asked: Asked) -> str:
    """CNAPs' ResNet-18, or a smaller one for characters."""
    return "resnet-small" if asked.characters else "resnet18"
