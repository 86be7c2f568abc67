"""An image as numbers: decoding bytes, and resizing as each protocol does it.

Meta-Dataset resizes bilinearly with aligned corners and without anti-aliasing (its decoder.py); MAML's
Omniglot ends up with nearest neighbours, since its images have one bit, and miniImageNet with Lanczos (its
resize_images.py).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from tasknorm.data.errors import DataError

Pixels: TypeAlias = NDArray[np.uint8]
Resize: TypeAlias = Callable[[Pixels, int], Pixels]

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MAX_PIXELS = 50_000_000
MODES = {1: "L", 3: "RGB"}


def decoded(data: bytes, channels: int, where: str) -> Pixels:
    """The image in `data`, uint8 `(height, width, channels)`.

    Raises:
        DataError: if it is no image, is cut short, or is absurdly large; names `where` it came from.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check_size(image, where)
            pixels = np.asarray(image if image.mode == MODES[channels] else image.convert(MODES[channels]))
    except DataError:
        raise
    except Exception as error:  # a broken file makes Pillow raise nearly anything
        raise DataError(
            f"{where}: an image is one of {', '.join(FORMATS)}, whole and intact, got {len(data)} bytes that "
            f"do not decode ({error}); fetch the file again or remove it"
        ) from error
    return pixels.reshape(*pixels.shape[:2], channels)


def _check_size(image: Image.Image, where: str) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise DataError(
            f"{where}: an image has at most {MAX_PIXELS:,} pixels, got {width} x {height}; "
            "if it is no decompression bomb, shrink it first"
        )


def nearest(image: Pixels, size: int) -> Pixels:
    """`(height, width, channels)` to `(size, size, channels)`: the nearest pixel's value."""
    return _resampled(image, size, Image.Resampling.NEAREST)


def lanczos(image: Pixels, size: int) -> Pixels:
    """`(height, width, channels)` to `(size, size, channels)`, with a Lanczos filter."""
    return _resampled(image, size, Image.Resampling.LANCZOS)


def bilinear(image: Pixels, size: int) -> Pixels:
    """`(height, width, channels)` to `(size, size, channels)`, bilinear with aligned corners."""
    if image.shape[:2] == (size, size):
        return image
    return np.ascontiguousarray(bilinear_batch(image.transpose(2, 0, 1)[None], size)[0].transpose(1, 2, 0))


def bilinear_batch(images: Pixels, size: int) -> Pixels:
    """`(images, channels, height, width)` to `(..., size, size)`, bilinear with aligned corners."""
    if images.shape[2:] == (size, size):
        return images
    planes = torch.from_numpy(np.ascontiguousarray(images)).float()
    resized = torch.nn.functional.interpolate(planes, (size, size), mode="bilinear", align_corners=True)
    rounded: Pixels = resized.add_(0.5).to(torch.uint8).numpy()  # an average: at most 255
    return rounded


def _resampled(image: Pixels, size: int, resampling: Image.Resampling) -> Pixels:
    if image.shape[:2] == (size, size):
        return image
    picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
    return np.asarray(picture.resize((size, size), resampling)).reshape(size, size, image.shape[2])
