"""What a service allows at most; each limit is a flag of `tasknorm serve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tasknorm.errors import SettingsError, short


class Limits(BaseModel):
    """The limits of a service; a request beyond one of them is refused with an error that names the limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    body_megabytes: float = Field(default=64, gt=0, description="Largest body of a request, in megabytes.")
    all_bodies_megabytes: float = Field(
        default=256, gt=0, description="Largest total of all bodies that are held at once, in megabytes."
    )
    images: int = Field(default=256, ge=1, description="Most images of one request.")
    megapixels: float = Field(
        default=400, gt=0, description="Most pixels of one request's images together, in millions; one image: 50."
    )
    classes: int = Field(default=100, ge=2, description="Most classes of a predictor.")
    context: int = Field(default=512, ge=2, description="Most context images of a predictor.")
    predictors: int = Field(default=100, ge=1, description="Most predictors that are kept in the folder.")
    in_memory: int = Field(default=16, ge=1, description="Most predictors in memory; the others are loaded when asked.")
    seconds: float = Field(
        default=30, gt=0, description="Longest time for a request, from its first byte to its answer."
    )
    idle_seconds: float = Field(
        default=10, gt=0, description="Longest time that a connection may take to send the headers of a request."
    )
    connections: int = Field(default=256, ge=1, description="Most connections at a time.")
    queue: int = Field(
        default=32, ge=1, description="Most requests that wait or compute at a time; others are told to retry."
    )
    batch: int = Field(default=64, ge=1, description="Most images of one pass through a net; 1 turns batching off.")

    @property
    def body_bytes(self) -> int:
        """The largest body of a request in bytes."""
        return int(self.body_megabytes * 1e6)

    @property
    def all_bodies_bytes(self) -> int:
        """The largest total of bodies in bytes."""
        return int(self.all_bodies_megabytes * 1e6)

    @property
    def pixels(self) -> int:
        """The most pixels of one request's images."""
        return int(self.megapixels * 1e6)


def limits_of(values: Mapping[str, Any]) -> Limits:
    """The limits with these values, which may be text; the others have their defaults.

    Raises:
        SettingsError: if a value is wrong.
    """
    try:
        return Limits.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise SettingsError(
            f"--{name.replace('_', '-')}: {first['msg'].lower()}, got {short(first['input'])}; correct it"
        ) from None
