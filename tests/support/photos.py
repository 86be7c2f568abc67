"""Photos for tests, of characters: in colour, large, of several formats, on a textured ground."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from tasknorm.data import opened


def photo(class_id: int, number: int, width: int = 90, height: int = 70) -> Image.Image:
    """One drawing of a character of `glyphs` as a colour photo; the same whenever it is asked for."""
    random = np.random.default_rng([class_id, number])
    drawing = Image.fromarray(opened("glyphs").image(class_id, number)[:, :, 0])
    ink = np.asarray(drawing.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float64)[:, :, None] / 255
    ground, colour = random.uniform(150, 230, 3), random.uniform(0, 90, 3)
    noise = random.normal(0, 6, (height, width, 3))
    return Image.fromarray((ground * (1 - ink) + colour * ink + noise).clip(0, 255).astype(np.uint8))


def write_photos(folder: Path, classes: dict[str, int], images: int = 12) -> list[Path]:
    """A subfolder for each class; JPEG and PNG in turns.

    Args:
        folder: where to.
        classes: for each name the number of a character of `glyphs`.
        images: of each class, at most 20.
    """
    found = []
    for name, class_id in classes.items():
        (folder / name).mkdir(parents=True)
        for number in range(images):
            path = folder / name / f"{number:02}.{('jpg', 'png')[number % 2]}"
            photo(class_id, number, 60 + 10 * (number % 4)).save(path, quality=90)
            found.append(path)
    return found
