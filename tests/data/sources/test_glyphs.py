"""The embedded data set: legible, no look-alikes, always the same."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from PIL import Image, ImageFilter

from tasknorm.data import Cached, Glyphs, VariableSampler
from tasknorm.data.sources.glyphs import DRAWINGS, FONTS, fonts_of, shape
from tasknorm.data.sources.scripts import SCRIPTS

CHARACTERS = [c for scripts in SCRIPTS.values() for characters in scripts.values() for c in characters]


@pytest.fixture(scope="module")
def pictures():
    """Every drawing of every class, (classes, drawings, 28, 28)."""
    glyphs = Glyphs()
    every = [[glyphs.image(c, d)[:, :, 0] for d in range(DRAWINGS)] for c in range(len(CHARACTERS))]
    return np.array(every)


def test_is_as_large_as_promised():
    spec = Glyphs().spec
    assert sum(len(split.groups) for split in spec.splits.values()) == 26
    assert len(spec.class_names) == len(set(CHARACTERS)) == 911
    assert all(split.kind == "bilevel" for split in spec.splits.values())
    assert all(len(group) >= 15 for split in spec.splits.values() for group in split.groups)


def test_splits_by_script():
    names = {split: {*scripts} for split, scripts in SCRIPTS.items()}
    assert not names["train"] & names["test"]
    assert not names["valid"] & (names["train"] | names["test"])


def test_every_character_is_in_a_font_and_not_its_empty_box():
    assert "LastResort" not in " ".join(FONTS)
    boxes = {font: shape("\U0010fffe", font) for font in FONTS}  # no font has it: this draws the box
    for character in CHARACTERS:
        assert unicodedata.category(character) != "Cn"
        assert fonts_of(character)
        for font in fonts_of(character):
            assert not np.array_equal(shape(character, font), boxes[font])


def test_no_two_classes_look_the_same():
    """In the same typeface, at the same scale, slightly blurred."""
    for font in FONTS:
        characters = [c for c in CHARACTERS if font in fonts_of(c)]
        vectors = np.stack([_blurred(shape(c, font)) for c in characters])
        alike = vectors @ vectors.T - 2 * np.eye(len(vectors))
        worst = np.unravel_index(alike.argmax(), alike.shape)
        assert alike.max() < 0.92, (font, [characters[i] for i in worst], alike.max())


def _blurred(picture):
    image = Image.fromarray(picture).filter(ImageFilter.GaussianBlur(2))
    vector = np.asarray(image, np.float64)[::2, ::2].ravel()
    vector = vector - vector.mean()
    return vector / np.linalg.norm(vector)


def test_every_drawing_has_ink_and_room(pictures):
    ink = pictures.mean((2, 3)) / 255
    assert 0.02 < ink.min() < ink.max() < 0.6
    assert (ink.min(1) > 0.4 * np.median(ink, 1)).all()  # no drawing of a character has faded away
    assert (pictures.max((2, 3)) > 200).mean() > 0.99


def test_drawings_of_a_character_differ_and_are_nearer_to_each_other_than_to_others(pictures):
    flat = pictures[::4].reshape(-1, DRAWINGS, 784).astype(np.float32)
    assert all(len(np.unique(drawings, axis=0)) == DRAWINGS for drawings in flat)
    flat /= np.linalg.norm(flat, axis=2, keepdims=True)
    some, others = flat[:, ::2].reshape(-1, 784), flat[:, 1::2].reshape(-1, 784)
    nearest = (others @ some.T).argmax(1) // (DRAWINGS // 2)
    assert (nearest == np.repeat(np.arange(len(flat)), DRAWINGS // 2)).mean() > 0.7  # of 228 classes


def test_is_the_same_for_the_same_seed_only():
    again, other = Glyphs(), Glyphs(seed=1)
    np.testing.assert_array_equal(Glyphs().image(5, 3), again.image(5, 3))
    assert not np.array_equal(again.image(5, 3), other.image(5, 3))
    assert again.fingerprint() != other.fingerprint()


def test_makes_its_cache_once(tmp_path):
    first = Cached(Glyphs(), 28, folder=tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    second = Cached(Glyphs(), 28, folder=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files
    some = np.array([0, 500]), np.array([19, 3])
    np.testing.assert_array_equal(first.batch(*some), second.batch(*some))
    np.testing.assert_array_equal(first.batch(*some)[1, 0], Glyphs().image(500, 3)[:, :, 0])


def test_variable_episodes_stay_within_one_script():
    spec = Glyphs().spec
    sampler = VariableSampler(spec.splits["test"])
    for index in range(20):
        names = [spec.class_names[i] for i in sampler.draw(0, index).classes]
        assert len({name.split("/")[0] for name in names}) == 1
