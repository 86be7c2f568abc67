"""Every setting of a pretraining; each is a key of config files and a flag of `tasknorm pretrain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from tasknorm.data import LARGEST_SIDE, ResizeName, Scale
from tasknorm.errors import SettingsError
from tasknorm.settings.config import FOLD, RESIZE, SCALE, Fold, about, in_words


class PretrainSettings(BaseModel):
    """Every setting of a pretraining."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    length_name: ClassVar[str] = "epochs"

    source: str = Field("glyphs", description="Data set name, or the path of a folder or archive.")
    net: Literal["resnet18", "resnet-small"] = Field("resnet18", description="Network of the feature extractor.")
    image_size: int = Field(84, ge=1, le=LARGEST_SIDE, description="Height and width of the images, in pixels.")
    resize: ResizeName | None = about(RESIZE)
    scale: Scale = Field("signed", description=SCALE)
    epochs: int = Field(125, ge=1, description="Number of passes over all images.")
    batch: int = Field(256, ge=2, description="Number of images in each step.")
    learning_rate: float = Field(0.1, gt=0, description="Learning rate of SGD with momentum 0.9.")
    divide_every: int = Field(25, ge=1, description="Number of epochs after which the learning rate is divided by 10.")
    weight_decay: float = Field(1e-4, ge=0, description="Weight decay of SGD.")
    crop: int = Field(8, ge=0, description="Largest random shift of an image, in pixels.")
    flip: bool = Field(True, description="Mirror images at random; unsuitable for characters.")
    skip_bad: bool = Field(False, description="Leave out images that cannot be read, and list them.")
    fold: Fold | None = about(FOLD)
    seed: int = Field(
        0, ge=0, lt=2**63, description="Seed of the initial weights, the order of images, shifts and flips."
    )
    device: Literal["auto", "cuda", "mps", "cpu"] = Field("auto", description="Device to compute on.")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The given settings, and the defaults for the rest.

        Raises:
            SettingsError: names the setting that is unknown or wrong.
        """
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise SettingsError("; ".join(in_words(e, cls.fields()) for e in error.errors())) from None

    @classmethod
    def fields(cls) -> dict[str, FieldInfo]:
        """Every setting by name."""
        return cls.model_fields

    def values(self) -> dict[str, Any]:
        """All settings by name, as a config file holds them."""
        return self.model_dump()

    @property
    def machine(self) -> tuple[str, ...]:
        """Names of the settings that may change when a run is resumed: they affect only its speed."""
        return ("device",)

    @property
    def length(self) -> int:
        """Length of the run: its number of epochs."""
        return self.epochs

    def with_length(self, length: int) -> Self:
        """The same settings with another number of epochs."""
        return self.model_copy(update={"epochs": length})

    @property
    def all_sources(self) -> tuple[str, ...]:
        """The sources of the images."""
        return (self.source,)
