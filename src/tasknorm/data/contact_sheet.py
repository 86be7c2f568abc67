"""A contact sheet: some images of some classes on one page."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from tasknorm.data.sources.source import Source, chosen_split

GAP = 2
LABEL = 150


def sheet(source: Source, split: str, classes: int = 20, images: int = 10, size: int = 56) -> Image.Image:
    """One row per class, spread evenly over the split; its name and its first images.

    Raises:
        DataError: if the split is empty, or an image is bad.
    """
    chosen = chosen_split(source.spec, split)
    rows = np.unique(np.linspace(0, len(chosen.classes) - 1, min(classes, len(chosen.classes))).round().astype(int))
    page = Image.new("RGB", (LABEL + images * (size + GAP), len(rows) * (size + GAP)), "white")
    write = ImageDraw.Draw(page)
    for y, position in enumerate(rows.tolist()):
        class_id = chosen.classes[position]
        name = source.spec.class_names[class_id]
        write.text((GAP, y * (size + GAP) + size // 3), _short(name), fill="black")
        for x in range(min(images, chosen.images[position])):
            page.paste(_thumbnail(source, class_id, x, size), (LABEL + x * (size + GAP), y * (size + GAP)))
    return page


def _short(name: str) -> str:
    """The end of a name, in letters that the default font has; others by their code point."""
    plain = "".join(c if c.isascii() else f"U+{ord(c):04X}" for c in name)
    return plain if len(plain) <= 24 else "..." + plain[-21:]


def _thumbnail(source: Source, class_id: int, number: int, size: int) -> Image.Image:
    pixels = source.image(class_id, number)
    picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    return picture.convert("RGB").resize((size, size), Image.Resampling.BICUBIC)
