"""The papers' settings for a learner and its sources: the defaults of a run.

Settings of one learner are in its own file, such as MAML's in `learners/maml.py` (see `Learner.papers`); here are those
that all learners have in common.
"""

from __future__ import annotations

from typing import Any

from tasknorm.learners import LEARNERS, Asked
from tasknorm.norms import NORMS, TaskNorm

ALL: dict[str, Any] = {"learning_rate": 1e-3, "iterations": 60_000}
ON_CHARACTERS: dict[str, Any] = {"image_size": 28, "scale": "unit"}
ON_PHOTOS: dict[str, Any] = {"image_size": 84, "scale": "unit"}


def papers_settings(learner: str, asked: Asked) -> dict[str, Any]:
    """The settings of the papers' experiment that is most similar to the run asked for.

    Args:
        learner: name of the learner; an unknown name gets only what all learners have in common.
        asked: the properties of the run on which the settings depend.

    >>> papers_settings("maml", Asked(["omniglot"], "TaskNorm-I", way=20, shot=1))["inner_steps"]
    5
    """
    values = ALL | (ON_CHARACTERS if asked.characters else ON_PHOTOS)
    values |= LEARNERS[learner].papers(asked) if learner in LEARNERS else {}
    if asked.norm in NORMS and issubclass(NORMS[asked.norm], TaskNorm):
        # If the context size is fixed, alpha does not depend on it (appendix E).
        varies = values.get("sampling") == "variable"
        values |= {"alpha": "functional-shared" if varies else "independent-shared"}
    return values
