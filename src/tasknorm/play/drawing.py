"""A drawing for the embedded learners: its strokes cut out, scaled to one size and centred, as glyphs are drawn.

The page does the same in `page/pictures.js`.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from tasknorm.data import Pixels
from tasknorm.errors import DataError

INK = 64  # a pixel from this value on is ink
FIT = 22 / 28  # a drawing's longer side, as a share of the net's image
FLAT = 24  # an image whose tones differ by less shows no drawing


def prepared_drawing(image: Pixels, size: int = 28) -> Pixels:
    """A drawing, dark on light or light on dark, as the embedded learners take it.

    Args:
        image: grey, uint8 `(height, width)`.
        size: side of the result.

    Returns:
        uint8 `(size, size)`, strokes white on black.

    Raises:
        DataError: if the image has one tone only.
    """
    low, high = int(image.min()), int(image.max())
    if high - low < FLAT:
        raise DataError(f"a drawing needs strokes that differ from the paper, got tones from {low} to {high}")
    tones = image.astype(np.float64)
    border = np.concatenate((tones[0], tones[-1], tones[:, 0], tones[:, -1])).mean()
    ink = high - tones if border > (low + high) / 2 else tones - low
    return _centred(np.floor(ink * 255 / (high - low) + 0.5).astype(np.uint8), size)


def _centred(ink: Pixels, size: int) -> Pixels:
    rows, columns = np.nonzero(ink >= INK)
    cut = ink[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    scale = round(FIT * size) / max(cut.shape)
    height, width = (max(1, int(side * scale + 0.5)) for side in cut.shape)
    small = Image.fromarray(cut).resize((width, height), Image.Resampling.BILINEAR)
    canvas = np.zeros((size, size), np.uint8)
    top, left = (size - height) // 2, (size - width) // 2
    canvas[top : top + height, left : left + width] = np.asarray(small)
    return canvas
