"""What a viewer shows of an image file, as 8 bits of grey, or of red, green and blue.

| in the file                          | what is read                                                          |
|--------------------------------------|-----------------------------------------------------------------------|
| 16 bits a channel                    | the same tones in 8 bits: 65535 becomes 255                           |
| transparency, by alpha or one colour | the image on white                                                    |
| palette, 1 bit, CMYK, YCbCr          | its colours; colour profiles are not applied                          |
| several frames or pages              | the first                                                             |
| a turned camera (EXIF orientation)   | upright, if asked for: the papers' data sets are read as they lie     |
| 32-bit numbers, floats, Lab          | refused: viewers do not agree on the range, or Pillow does not read it |
"""

from __future__ import annotations

import numpy as np
from PIL import ExifTags, Image, TiffImagePlugin

from tasknorm.errors import DataError

SHOWN = ("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr")
NAMES = {"F": "32-bit floats", "I": "32-bit integers", "LAB": "Lab colours"}
SIXTEEN_BITS_IN_32 = ("PNG", "PPM")  # formats whose 16-bit images Pillow opens as 32-bit integers
MIN_IS_WHITE = 0
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def shown(image: Image.Image, mode: str, where: str, *, upright: bool = False) -> Image.Image:
    """An opened file as a picture of mode "L" or "RGB" (see the table above).

    Args:
        image: as `Image.open` gives it.
        mode: "L" for grey, "RGB" for colour.
        where: what messages call the file.
        upright: turn the picture as its EXIF orientation says.

    Raises:
        DataError: if its numbers have no agreed meaning as tones; names the file and the kind of numbers.
    """
    image.load()  # before its orientation is asked for: a TIFF is turned by Pillow then
    picture = image
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in SIXTEEN_BITS_IN_32):
        picture = _in_eight_bits(image)
    elif image.has_transparency_data:
        picture = _on_white(image)
    if picture.mode not in SHOWN:
        kind = NAMES.get(picture.mode, f"mode {picture.mode}")
        raise DataError(
            f"{where}: images of {kind} are not read, since viewers show them differently; save it with 8 or 16 bits a "
            "channel in grey or RGB"
        )
    picture = picture if picture.mode == mode else picture.convert(mode)
    turn = TURNS.get(_orientation(image)) if upright else None
    return picture if turn is None else picture.transpose(turn)


def _in_eight_bits(image: Image.Image) -> Image.Image:
    """Grey tones of 16 bits in 8; a TIFF's may have 12 bits, or run from white to black."""
    numbers = np.asarray(image).astype(np.int64)
    tags = image.tag_v2 if isinstance(image, TiffImagePlugin.TiffImageFile) else {}
    bits = tags.get(TiffImagePlugin.BITSPERSAMPLE, (16,))[0]
    white = 2**bits - 1
    if tags.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION) == MIN_IS_WHITE:
        numbers = white - numbers
    numbers[numbers == image.info.get("transparency", -1)] = white
    return Image.fromarray(((numbers * 255 + white // 2) // white).astype(np.uint8))


def _on_white(image: Image.Image) -> Image.Image:
    coloured = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured).convert("RGB")


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 to 8; 1 if there is none, or it cannot be read: viewers then turn nothing."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # a broken EXIF block makes Pillow raise nearly anything
        return 1
    return value if isinstance(value, int) else 1
