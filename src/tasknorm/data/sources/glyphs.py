"""The embedded default: characters of many scripts, drawn from the fonts inside matplotlib, with no download.

Hierarchical like Omniglot (Lake et al., 2015): script, character, 20 drawings of 28 x 28, strokes white on
black. A drawing is the character in one of up to four typefaces, turned, sheared, scaled, moved, bent and
drawn with a thinner or thicker stroke. The drawings depend on `VERSION` and the seed only (and, in the last
bits, on FreeType's version).
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from tasknorm.data.formats.pixels import Pixels, bilinear
from tasknorm.data.sources.jitter import drawn
from tasknorm.data.sources.scripts import SCRIPTS
from tasknorm.data.sources.source import bilevel_spec

VERSION = 1
DRAWINGS = 20
SIZE = 28
FONTS = ("DejaVuSans", "DejaVuSerif", "DejaVuSansMono", "STIXGeneral")
CANVAS, BOX = 64, 50  # a clean shape is scaled to fit BOX and centred on CANVAS


class Glyphs:
    """911 characters of 26 scripts and blocks of symbols; splits by script.

    Args:
        seed: another seed gives other drawings of the same characters.

    >>> len(Glyphs().spec.splits["train"].groups)
    15
    """

    origin = "glyphs"
    channels = 1
    resize = staticmethod(bilinear)

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        alphabets = {
            split: {script: dict.fromkeys(characters, DRAWINGS) for script, characters in scripts.items()}
            for split, scripts in SCRIPTS.items()
        }
        self.spec = bilevel_spec("glyphs", alphabets)
        self._characters = "".join("".join(scripts.values()) for scripts in SCRIPTS.values())
        self._drawings = lru_cache(maxsize=8)(self._drawn)

    def image(self, class_id: int, number: int) -> Pixels:
        drawing: Pixels = self._drawings(class_id)[number]
        return drawing

    def where(self, class_id: int, number: int) -> str:
        return f"glyphs:{self.spec.class_names[class_id]}:{number}"

    def fingerprint(self) -> str:
        return f"glyphs version {VERSION} seed {self.seed}"

    def _drawn(self, class_id: int) -> Pixels:
        """Every drawing of one class, `(drawings, size, size, 1)`."""
        character = self._characters[class_id]
        shapes = np.stack([shape(character, font) for font in fonts_of(character)])
        fields = torch.from_numpy(shapes[np.arange(DRAWINGS) % len(shapes)])
        key = hashlib.sha256(f"{VERSION} {self.seed} {character}".encode()).digest()
        return drawn(fields, SIZE, np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16]))))[..., None]


def fonts_of(character: str) -> list[str]:
    """The fonts that have this character, never only its empty box."""
    return [font for font in FONTS if ord(character) in _charmap(font)]


@lru_cache(maxsize=8192)
def shape(character: str, font: str) -> Pixels:
    """A clean picture of a character, uint8 `(CANVAS, CANVAS)`, scaled to the same box whatever its size."""
    page = Image.new("L", (4 * CANVAS, 4 * CANVAS))
    ImageDraw.Draw(page).text((CANVAS, CANVAS), character, fill=255, font=_typeface(font))
    ink = page.crop(page.getbbox())
    scale = BOX / max(ink.size)
    width, height = (max(1, round(side * scale)) for side in ink.size)
    canvas = Image.new("L", (CANVAS, CANVAS))
    canvas.paste(ink.resize((width, height), Image.Resampling.BICUBIC), ((CANVAS - width) // 2, (CANVAS - height) // 2))
    return np.asarray(canvas)


def _font_file(font: str) -> Path:
    import matplotlib

    return Path(matplotlib.get_data_path(), "fonts", "ttf", f"{font}.ttf")


@lru_cache(maxsize=8)
def _charmap(font: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(str(_font_file(font))).get_charmap())


@lru_cache(maxsize=8)
def _typeface(font: str) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(_font_file(font)), 96, layout_engine=ImageFont.Layout.BASIC)
