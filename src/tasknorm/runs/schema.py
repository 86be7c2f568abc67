"""What `result.json` holds, so that a damaged one is noticed where it is read."""

from __future__ import annotations

from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tasknorm.episode import Targets

Numbers = list[float]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


P = TypeVar("P", bound=_Part)


def _checked_lengths(part: P, *lists: Numbers) -> P:
    lengths = sorted({len(numbers) for numbers in lists})
    if len(lengths) > 1:
        raise ValueError(f"all lists must have one length, got {lengths[0]} and {lengths[-1]}")
    return part


class Point(_Part):
    """An accuracy and half the width of its 95 % interval, both shares."""

    accuracy: float = Field(ge=0, le=1)
    interval: float = Field(ge=0)


class Gain(_Part):
    """A paired difference of accuracies and half the width of its 95 % interval."""

    difference: float = Field(ge=-1, le=1)
    interval: float = Field(ge=0)


class Chosen(_Part):
    """Which candidate of a tuning was chosen, and the accuracy of each on the validation tasks."""

    candidate: str
    validation: dict[str, float]


class Row(Point):
    """One line of the test (see `Result`)."""

    weights: str
    norm: str
    source: str
    way: int | None
    shot: int | None
    targets: Targets
    tasks: int = Field(ge=1)
    label: str
    step: int | None = None
    maximum: Point | None = None
    steps: list[Point] = []
    candidate: str | None = None
    gain: Gain | None = None


class Curve(_Part):
    """Means over windows of iterations."""

    iteration: Numbers
    loss: Numbers
    accuracy: Numbers
    seconds: Numbers

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        return _checked_lengths(self, self.iteration, self.loss, self.accuracy, self.seconds)


class Validation(_Part):
    """Accuracies by norm at each validation, and by norm and source where there are several."""

    iteration: Numbers
    seconds: Numbers
    accuracy: dict[str, Numbers]
    sources: dict[str, dict[str, Numbers]] = {}

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        by_source = [numbers for sources in self.sources.values() for numbers in sources.values()]
        return _checked_lengths(self, self.iteration, self.seconds, *self.accuracy.values(), *by_source)


class Alpha(_Part):
    """SCALE and OFFSET of a layer: numbers, or a number for each channel."""

    layer: str
    scale: float | Numbers | None
    offset: float | Numbers


class ResultFile(BaseModel):
    """The whole file; later versions may add to it."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    seconds: float = Field(ge=0)
    seconds_per_iteration: float = Field(ge=0)
    contexts: float = Field(ge=0)
    curve: Curve
    validation: Validation
    alphas: list[Alpha]
    accuracies: list[Row]
    seconds_per_test_task: dict[str, float] = {}
    threads: int | list[int] = 1
    spent: dict[str, float] = {}
    audited: int = Field(1, ge=1)
    chosen: dict[str, Chosen] = {}
