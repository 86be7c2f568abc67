"""A drawing is the same whatever its size, place and polarity."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tasknorm.errors import DataError
from tasknorm.play import prepared_drawing


def drawn(scale: float = 1.0, place: tuple[int, int] = (20, 30), side: int = 105) -> np.ndarray:
    """Black strokes on white paper."""
    page = Image.new("L", (side, side), 255)
    points = [(place[0] + scale * x, place[1] + scale * y) for x, y in ((0, 0), (30, 5), (10, 40), (45, 38))]
    ImageDraw.Draw(page).line(points, fill=0, width=round(5 * scale))
    return np.asarray(page)


def test_it_is_centred_and_its_longer_side_is_22_of_28() -> None:
    made = prepared_drawing(drawn())
    assert made.shape == (28, 28)
    rows, columns = np.nonzero(made)
    assert max(np.ptp(rows), np.ptp(columns)) + 1 == 22
    assert abs(rows.min() + rows.max() - 27) <= 1
    assert abs(columns.min() + columns.max() - 27) <= 1


def test_place_and_polarity_do_not_matter() -> None:
    expected = prepared_drawing(drawn())
    np.testing.assert_array_equal(prepared_drawing(drawn(place=(50, 8))), expected)
    np.testing.assert_array_equal(prepared_drawing(255 - drawn()), expected)
    faint = (255 - (255 - drawn().astype(float)) * 0.4).astype(np.uint8)
    np.testing.assert_array_equal(prepared_drawing(faint), expected)


def test_size_hardly_matters() -> None:
    made = prepared_drawing(drawn(2, (40, 60), 210)).astype(float)
    assert np.abs(made - prepared_drawing(drawn())).mean() < 6


@pytest.mark.parametrize("tone", [0, 128, 255])
def test_a_page_of_one_tone_is_refused(tone: int) -> None:
    with pytest.raises(DataError, match=f"strokes that differ from the paper, got tones from {tone} to {tone}"):
        prepared_drawing(np.full((40, 40), tone, np.uint8))


def test_a_dot_is_a_drawing() -> None:
    page = np.full((50, 60), 255, np.uint8)
    page[20, 30] = 0
    assert (prepared_drawing(page) > 0).sum() == 22 * 22
