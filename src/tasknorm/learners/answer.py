"""The answer of a predictor to one image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

NONE = "none of these"


@dataclass(frozen=True)
class Answer:
    """The class of an image.

    Args:
        name: of the class, or "none of these".
        probability: of the likeliest class, also if the answer is "none of these".
        probabilities: of all classes by name.
    """

    name: str
    probability: float
    probabilities: dict[str, float]

    @classmethod
    def of(cls, names: Sequence[str], probabilities: Tensor, threshold: float | None) -> Answer:
        """The likeliest class, or "none of these" if its probability is below the threshold.

        Args:
            names: of the classes.
            probabilities: of the classes, `(way,)`.
            threshold: None for never.
        """
        values = probabilities.tolist()
        largest = max(values)
        rejected = threshold is not None and largest < threshold
        return cls(NONE if rejected else names[values.index(largest)], largest, dict(zip(names, values, strict=True)))
