"""How images become what a net takes: decoded, resized and scaled as its training images were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from tasknorm.data.formats.pixels import RESIZES, Pixels, ResizeName, decoded, pictured
from tasknorm.data.sampling.episodes import SCALINGS, Scale
from tasknorm.data.sources.source import Source
from tasknorm.errors import DataError, at, reason
from tasknorm.machine import read_regular

Picture: TypeAlias = str | Path | bytes | Image.Image | NDArray[np.generic] | Tensor
Pictures: TypeAlias = "Picture | Sequence[Picture] | Prepared"

LARGEST_FILE = 1 << 28  # bytes of an image file
LARGEST_SIDE = 1024  # pixels of an image for the net


@dataclass(frozen=True)
class Prepared:
    """Images that `Preparation.pixels` has made before; wherever images are taken, these are too.

    Args:
        pixels: bytes `(images, channels, size, size)`.
    """

    pixels: Tensor

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, part: slice) -> Prepared:
        return Prepared(self.pixels[part])


class Preparation(BaseModel):
    """What happens to an image before a net sees it.

    Images are read as a viewer shows them, upright (see `formats.shown`), resized, and scaled.

    Args:
        size: height and width for the net.
        channels: 1 (grey) or 3 (red, green, blue).
        scale: how bytes become floats: a name in `SCALINGS`.
        resize: how an image is brought to `size`: a name in `RESIZES`.
        inverted: whether light and dark are exchanged, as Omniglot's are: black on white in its files, white on black
            for the net.

    >>> Preparation(size=28, channels=1)([np.zeros((40, 30), np.uint8)]).shape
    torch.Size([1, 1, 28, 28])
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    size: int = Field(ge=1, le=LARGEST_SIDE)
    channels: Literal[1, 3]
    scale: Scale = "unit"
    resize: ResizeName = "antialiased"
    inverted: bool = False

    @classmethod
    def of(cls, source: Source, size: int, channels: int, scale: str, resize: ResizeName | None = None) -> Self:
        """The preparation of images like those of a source, for a net of this image size and number of channels.

        Bilinear resizing without anti-aliasing, the protocol of Meta-Dataset, becomes anti-aliased: one's own photos
        are much larger than the net's images (see `formats.pixels`).

        Args:
            source: whose images.
            size: height and width for the net.
            channels: of the net's images.
            scale: a name in `SCALINGS`.
            resize: a name in `RESIZES`, if the net's images were not resized by the source's own rule.
        """
        names = {resize: name for name, resize in RESIZES.items() if name != "bilinear"}
        resize = resize or names.get(source.resize, "antialiased")
        inverted = source.spec.name.startswith("omniglot") and source.resize is RESIZES["nearest"]
        return cls.model_validate(
            {"size": size, "channels": channels, "scale": scale, "resize": resize, "inverted": inverted}
        )

    @model_validator(mode="after")
    def _of_colour(self) -> Self:
        if self.scale == "standard" and self.channels != 3:
            raise ValueError(f"scale='standard' needs 3 channels, got channels={self.channels}")
        return self

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image for the net."""
        return self.channels, self.size, self.size

    def __call__(self, images: Pictures) -> Tensor:
        """Images for the net, floats `(images, channels, size, size)`.

        Args:
            images: a list of images, each of any size: a path; the bytes of an image file; a Pillow image; a numpy
                array `(height, width)` or `(height, width, 1, 3 or 4)`; a tensor `(height, width)` or
                `(1, 3 or 4, height, width)`. Arrays and tensors hold bytes, or floats from 0 to 1.

        Raises:
            DataError: if one cannot be read; names the file, or the image's place in the list.
        """
        return self.scaled(self.pixels(images))

    def pixels(self, images: Pictures) -> Tensor:
        """As `__call__`, before scaling: bytes `(images, channels, size, size)`."""
        if isinstance(images, Prepared):
            return self._checked(images.pixels)
        made = [self._resized(image, number) for number, image in enumerate(listed_pictures(images))]
        if not made:
            return torch.empty(0, self.channels, self.size, self.size, dtype=torch.uint8)
        return torch.from_numpy(np.stack(made).transpose(0, 3, 1, 2)).contiguous()

    def scaled(self, pixels: Tensor) -> Tensor:
        """What `pixels` made, as floats for the net."""
        return SCALINGS[self.scale](pixels)

    def _checked(self, pixels: Tensor) -> Tensor:
        if pixels.dtype != torch.uint8 or pixels.shape[1:] != self.shape:
            raise DataError(
                f"prepared images must be bytes of shape {self.shape}, got {pixels.dtype} of shape "
                f"{tuple(pixels.shape[1:])}; prepare them with the predictor's own preparation"
            )
        return pixels

    def _resized(self, image: Picture, number: int) -> Pixels:
        pixels = _pixels(image, self.channels, f"image {number}")
        return RESIZES[self.resize](255 - pixels if self.inverted else pixels, self.size)


def listed_pictures(images: Pictures) -> list[Picture]:
    """The images one by one; a path, bytes or a Pillow image are one, an array or tensor with four axes several.

    Raises:
        DataError: if an array or a tensor may be one image or several.
    """
    if isinstance(images, (str, Path, bytes, Image.Image)):
        return [images]
    if isinstance(images, (np.ndarray, Tensor)) and images.ndim != 4:
        raise DataError(
            f"several images need four axes, got shape {tuple(images.shape)}; pass a single image in a list: [image]"
        )
    if not isinstance(images, Iterable):
        raise DataError(f"images must be a list of images, got {type(images).__name__}; put it in a list")
    return list(images)


def readable(image: Picture, report: Callable[[str], None]) -> bool:
    """Whether an image can be read; `report` gets what is wrong otherwise."""
    try:
        _pixels(image, 3, "image")
    except DataError as error:
        report(str(error))
        return False
    return True


def _pixels(image: object, channels: int, where: str) -> Pixels:
    """uint8 `(height, width, channels)`."""
    if isinstance(image, (str, Path)):
        try:
            data = read_regular(Path(image), LARGEST_FILE)
        except OSError as error:
            raise DataError(f"{at(image)}: the image cannot be read ({reason(error)}); correct the path") from None
        return decoded(data, channels, at(image), upright=True)
    if isinstance(image, bytes):
        return decoded(image, channels, where, upright=True)
    try:
        picture = image if isinstance(image, Image.Image) else Image.fromarray(_array(image, where))
        return pictured(picture, channels, where, upright=True)
    except DataError:
        raise
    except Exception as error:  # a broken file, opened lazily, makes Pillow raise nearly anything
        raise DataError(f"{where}: the image does not decode ({reason(error)}); replace it") from None


def _array(image: object, where: str) -> NDArray[np.generic]:
    """An array that Pillow can show: `(height, width)` or `(height, width, 3 or 4)`, bytes or 16 bits."""
    if isinstance(image, Tensor):
        array = image.detach().cpu().numpy() if image.dtype != torch.bfloat16 else image.detach().float().cpu().numpy()
        axes, channel = "(height, width) or (1, 3 or 4, height, width)", 0
    elif isinstance(image, np.ndarray):
        array, axes, channel = image, "(height, width) or (height, width, 1, 3 or 4)", -1
    else:
        raise DataError(
            f"{where}: an image must be a path, bytes of an image file, a Pillow image, an array or a tensor, got "
            f"{type(image).__name__}; convert it"
        )
    if array.ndim not in (2, 3) or 0 in array.shape or (array.ndim == 3 and array.shape[channel] not in (1, 3, 4)):
        kind = "a tensor" if channel == 0 else "an array"
        raise DataError(f"{where}: {kind} must have axes {axes}, got shape {array.shape}; rearrange its axes")
    if array.ndim == 3:
        array = np.moveaxis(array, channel, -1)
        array = array[:, :, 0] if array.shape[2] == 1 else array
    if np.issubdtype(array.dtype, np.floating):
        return _in_bytes(array, where)
    if array.dtype == np.uint8 or (array.dtype == np.uint16 and array.ndim == 2):
        return np.ascontiguousarray(array)
    raise DataError(f"{where}: pixels must be bytes (uint8), or floats from 0 to 1, got {array.dtype}; convert them")


def _in_bytes(array: NDArray[np.generic], where: str) -> Pixels:
    floats = array.astype(np.float64)
    low, high = float(floats.min()), float(floats.max())
    if not (low >= 0 and high <= 1):
        raise DataError(
            f"{where}: pixels that are floats must be from 0 to 1, got {low:g} to {high:g}; divide bytes by 255 "
            "(images that are prepared already go to the predictor itself: predictor(images))"
        )
    return np.ascontiguousarray(np.rint(255 * floats).astype(np.uint8))
