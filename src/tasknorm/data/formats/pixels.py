"""An image as numbers: decoding bytes, and resizing as each protocol does it.

Meta-Dataset resizes bilinearly with aligned corners and without anti-aliasing (its decoder.py); MAML's
Omniglot ends up with nearest neighbours, since its images have one bit, and miniImageNet with Lanczos (its
resize_images.py). Anybody's own photos have no protocol, and are resized with anti-aliasing: a photo is much larger
than the net's images, and without it most of its pixels would not count. All of these stretch an image to a square;
`crop` keeps its aspect ratio and loses its margins.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError, features
from torch import Tensor
from torch.nn import functional as F

from tasknorm.data.formats.shown import shown
from tasknorm.errors import DataError, reason

Pixels: TypeAlias = NDArray[np.uint8]
Resize: TypeAlias = Callable[[Pixels, int], Pixels]
ResizeName: TypeAlias = Literal["antialiased", "bilinear", "crop", "lanczos", "nearest"]

_AVIF = "avif" in features.modules and features.check("avif")  # older Pillows warn of a feature that they do not know
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM", *(("AVIF",) if _AVIF else ()))
HEIF = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1", b"avif", b"avis")
MAX_PIXELS = 50_000_000
SKIPPED = (
    0xDB,
    0xC4,
    0xDD,
    *range(0xE0, 0xEE),
    0xEF,
    0xFE,
)  # JPEG tables, comments and the like; not Adobe's
MODES = {1: "L", 3: "RGB"}


def decoded(data: bytes, channels: int, where: str, *, upright: bool = False) -> Pixels:
    """The image in `data` as a viewer shows it (see `shown`), uint8 `(height, width, channels)`.

    Args:
        data: the bytes of a file.
        channels: 1 (grey) or 3 (red, green, blue).
        where: what messages call the file.
        upright: turn the image as its EXIF orientation says.

    Raises:
        DataError: if it is no image, is cut short, is absurdly large, or holds no tones; names `where` it came from.
    """
    try:
        with _jpeg(data, where, upright) or Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return pictured(image, channels, where, upright=upright)
    except DataError:
        raise
    except UnidentifiedImageError:
        raise _unidentified(data, where) from None
    except Exception as error:  # a broken file makes Pillow raise nearly anything
        raise _broken(data, where, reason(error)) from error


def pictured(image: Image.Image, channels: int, where: str, *, upright: bool = False) -> Pixels:
    """As `decoded`, of a picture that Pillow has opened or made.

    Raises:
        DataError: if it is absurdly large, or holds no tones.
    """
    _check_size(image.size, where)
    pixels = np.asarray(shown(image, MODES[channels], where, upright=upright))
    return pixels.reshape(*pixels.shape[:2], channels)


def pixels_said(data: bytes) -> int:
    """The number of pixels that the header of an image file announces; 0 if it cannot be read."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return image.width * image.height
    except Exception:  # a broken file makes Pillow raise nearly anything
        return 0


def _unidentified(data: bytes, where: str) -> DataError:
    if data[4:8] == b"ftyp" and data[8:12] in HEIF:
        return DataError(
            f"{where}: HEIC, HEIF and AVIF images are not read here; convert it to JPEG first: "
            "`magick photo.heic photo.jpg` (ImageMagick), or on macOS `sips -s format jpeg photo.heic --out photo.jpg`"
        )
    return _broken(data, where, f"its first bytes are {data[:8]!r}" if data else "the file is empty")


def _broken(data: bytes, where: str, why: str) -> DataError:
    return DataError(
        f"{where}: the image does not decode ({why}), got {len(data):,} bytes; fetch the file again or "
        f"remove it (formats that are read: {', '.join(FORMATS)})"
    )


def _jpeg(data: bytes, where: str, upright: bool) -> Image.Image | None:
    """An ordinary JPEG, decoded without `Image.open`, which reads headers longer than it decodes.

    None for anything else, as one that may have to be turned: `Image.open` knows more, and says what is wrong.
    """
    at = 2
    while data[:2] == b"\xff\xd8" and at + 10 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        if marker in (0xC0, 0xC1, 0xC2):  # start of frame: height, width, number of components
            size = int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
            mode = {1: "L", 3: "RGB"}.get(data[at + 9])
            if mode is None or 0 in size:
                return None
            _check_size(size, where)
            return Image.frombytes(mode, size, data, "jpeg", mode, "")
        if marker not in SKIPPED or (upright and data[at + 4 : at + 8] == b"Exif"):
            return None
        at += 2 + length
    return None


def _check_size(size: tuple[int, int], where: str) -> None:
    width, height = size
    if width * height > MAX_PIXELS:
        raise DataError(
            f"{where}: an image may have {MAX_PIXELS:,} pixels at most, got {width} x {height}; if it is no "
            "decompression bomb, shrink it first"
        )


def nearest(image: Pixels, size: int) -> Pixels:
    """`(height, width, channels)` to `(size, size, channels)`: the nearest pixel's value."""
    return _resampled(image, size, Image.Resampling.NEAREST)


def lanczos(image: Pixels, size: int) -> Pixels:
    """`(height, width, channels)` to `(size, size, channels)`, with a Lanczos filter."""
    return _resampled(image, size, Image.Resampling.LANCZOS)


def antialiased(image: Pixels, size: int) -> Pixels:
    """`(height, width, channels)` to `(size, size, channels)`: a triangle filter as wide as the step between pixels."""
    return _resampled(image, size, Image.Resampling.BILINEAR)


def crop(image: Pixels, size: int) -> Pixels:
    """The centre square of `(height, width, channels)` as `(size, size, channels)`, anti-aliased: nothing is stretched.

    As if the shorter side were scaled to `size` and the middle of the longer one cut out. The rest is not computed:
    of a strip of one pixel by a million it would not fit into memory.
    """
    height, width = image.shape[:2]
    side = min(height, width)
    left, top = (width - side) // 2, (height - side) // 2
    return _resampled(image, size, Image.Resampling.BILINEAR, (left, top, left + side, top + side))


def bilinear(image: Pixels, size: int) -> Pixels:
    """`(height, width, channels)` to `(size, size, channels)`, bilinear with aligned corners."""
    if image.shape[:2] == (size, size):
        return image
    planes = torch.from_numpy(image[None].astype(np.float32)).permute(0, 3, 1, 2)
    rounded: Pixels = bilinear_planes(planes, size).to(torch.uint8)[0].permute(1, 2, 0).numpy()
    return rounded


def bilinear_planes(planes: Tensor, size: int) -> Tensor:
    """`(images, channels, height, width)` to float `(..., size, size)`, to be rounded down."""
    return F.interpolate(planes.float(), (size, size), mode="bilinear", align_corners=True).add_(0.5)


def _resampled(
    image: Pixels, size: int, resampling: Image.Resampling, box: tuple[int, int, int, int] | None = None
) -> Pixels:
    """The image, or what `box` (left, top, right, bottom) shows of it, as a square."""
    if image.shape[:2] == (size, size):
        return image
    picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
    return np.asarray(picture.resize((size, size), resampling, box)).reshape(size, size, image.shape[2])


RESIZES: dict[ResizeName, Resize] = {
    "antialiased": antialiased,
    "bilinear": bilinear,
    "crop": crop,
    "lanczos": lanczos,
    "nearest": nearest,
}
