"""What the service answers, for the OpenAPI document and for readers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from tasknorm.learners import Answer
from tasknorm.serve.store import Entry


class PredictorAnswer(BaseModel):
    """A predictor."""

    id: str = Field(description="Its id, for the other paths.")
    classes: dict[str, int | None] = Field(
        description="Number of context images of each class, in the order of the classes; null if it forgot them."
    )
    transductive: bool = Field(description="Whether answers to images together depend on each other.")

    @classmethod
    def of(cls, entry: Entry) -> PredictorAnswer:
        """What there is to say of a predictor."""
        return cls(id=entry.id, classes=dict(entry.classes), transductive=entry.transductive)


class PredictorList(BaseModel):
    """The ids of all predictors."""

    predictors: list[str] = Field(description="Ids, the latest first.")


class ImageAnswer(BaseModel):
    """The answer to one image."""

    file: str = Field(description="The file's name, or the image's place in the request.")
    name: str = Field(description='Name of the class, or "none of these".')
    probability: float = Field(description="Probability of the likeliest class.")
    probabilities: dict[str, float] = Field(description="Probabilities of all classes.")

    @classmethod
    def of(cls, file: str, answer: Answer) -> ImageAnswer:
        """The answer to the image of this file."""
        return cls(file=file, name=answer.name, probability=answer.probability, probabilities=answer.probabilities)


class Prediction(BaseModel):
    """The answers to the images of one request, in its order."""

    together: bool = Field(
        description="Whether each answer depends on the other images of this request; otherwise each is the answer to "
        "its image alone."
    )
    transductive: bool = Field(description="Whether the predictor is transductive.")
    answers: list[ImageAnswer]


class Reason(BaseModel):
    """Why a request was refused."""

    rule: str = Field(description="What holds for such requests.")
    value: Any = Field(description="What was received.")
    fix: str = Field(description="What the caller can do.")


class ErrorAnswer(BaseModel):
    """An error; every status from 400 on has this form."""

    error: Reason


class Health(BaseModel):
    """How the service is."""

    status: str = Field(description='"ok".')
    predictors: int = Field(description="Number of predictors.")
    waiting: int = Field(description="Requests that wait or compute.")
