"""Omniglot's three splits and its images."""

from __future__ import annotations

import shutil
import zipfile
from collections import Counter

import numpy as np
import pytest

from tasknorm.data.sources.omniglot import Omniglot, alphabets, maml, vinyals
from tasknorm.errors import DataError


@pytest.fixture(scope="module")
def path(data_folder):
    return data_folder / "omniglot.zip"


def test_mamls_split_is_the_same_everywhere(path):
    spec = Omniglot(path).spec
    first = [spec.class_names[spec.splits[split].classes[0]] for split in ("train", "valid", "test")]
    magi = [f"Alphabet_of_the_Magi/character{number}" for number in ("02", "08", "01")]
    assert first == magi  # by the SHA-256 of the names: no library's shuffle, no order of files


def test_vinyals_split_has_the_published_numbers_of_characters(path):
    spec = Omniglot(path, vinyals).spec
    sizes = {split: Counter() for split in spec.splits}
    for split, part in spec.splits.items():
        for class_id in part.classes:
            sizes[split][spec.class_names[class_id].split("/")[0]] += 1
    assert {split: sum(counts.values()) // 4 for split, counts in sizes.items()} == {
        "train": 1028,
        "valid": 172,
        "test": 423,
    }
    assert len(sizes["train"]) == 33
    assert sizes["train"]["Gurmukhi"] == 4 * 41
    assert sizes["test"]["Gurmukhi"] == 4 * 4
    assert sizes["valid"] == {
        "Hebrew": 88,
        "Mkhedruli_(Georgian)": 164,
        "Armenian": 164,
        "Early_Aramaic": 88,
        "Bengali": 184,
    }


def test_alphabets_are_groups(path):
    spec = Omniglot(path, alphabets).spec
    assert [len(spec.splits[split].groups) for split in ("train", "valid", "test")] == [25, 5, 20]
    assert spec.splits["valid"].group_names[0] == "Alphabet_of_the_Magi"
    assert {split.kind for split in spec.splits.values()} == {"bilevel"}


def test_strokes_are_white_on_black_and_binary(path):
    source = Omniglot(path)
    image = source.image(0, 0)
    assert image.shape == (105, 105, 1)
    assert set(np.unique(image)) == {0, 255}
    assert image[15, 60, 0] == 255
    assert set(np.unique(source.resize(image, 28))) == {0, 255}


def test_a_rotated_class_shows_the_same_drawing_turned(path):
    source = Omniglot(path, vinyals)
    assert [name.split("/")[-1] for name in source.spec.class_names[:4]] == [
        "rot000",
        "rot090",
        "rot180",
        "rot270",
    ]
    upright = source.image(0, 1)
    for turns in range(4):
        np.testing.assert_array_equal(source.image(turns, 1), np.rot90(upright, turns))


def test_reads_the_official_folders_and_the_official_pair_of_archives(path, tmp_path):
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "loose")
    for part in ("images_background", "images_evaluation"):
        shutil.make_archive(str(tmp_path / "pair" / part), "zip", tmp_path / "loose", part)
    specs = [Omniglot(place).spec for place in (path, tmp_path / "loose", tmp_path / "pair")]
    assert specs[0] == specs[1] == specs[2]
    assert maml({}).class_names == ()
    np.testing.assert_array_equal(Omniglot(tmp_path / "pair").image(1622, 1), Omniglot(path).image(1622, 1))


def test_half_of_it_is_an_error(path, tmp_path):
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path, [n for n in archive.namelist() if n.startswith("images_background/B")])
    with pytest.raises(DataError, match=r"Omniglot needs 1623 characters .* got 144; unpack or download both parts"):
        Omniglot(tmp_path)
