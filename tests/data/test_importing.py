"""Bringing data sets into the data folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from support.data_files import write_pets, write_quickdraw
from tasknorm.data import Glyphs, opened
from tasknorm.data.contact_sheet import sheet
from tasknorm.data.importing import import_source
from tasknorm.errors import DataError


@pytest.fixture
def pets(tmp_path):
    write_pets(tmp_path / "mine" / "pets", classes=8, images=3)
    return tmp_path / "mine" / "pets"


def test_copies_a_folder_with_its_splits(pets, tmp_path):
    splits = tmp_path / "s.json"
    splits.write_text(json.dumps({"train": ["pet01", "pet02"], "test": ["pet07"]}))
    imported = import_source(pets, "animals", tmp_path / "root", splits)
    assert imported.spec.class_names == ("pet01", "pet02", "pet07")
    assert opened("animals", tmp_path / "root").spec == imported.spec
    np.testing.assert_array_equal(imported.image(2, 1), opened(pets).image(7, 1))


def test_splits_beside_the_data_come_along(pets, tmp_path):
    (pets.parent / "pets.splits.json").unlink()
    (pets.parent / "splits.json").write_text(json.dumps({"pets": {"train": ["pet01", "pet02"], "test": ["pet07"]}}))
    imported = import_source(pets, "animals", tmp_path / "root")
    assert imported.spec == opened("animals", tmp_path / "root").spec
    assert imported.spec.class_names == opened(pets).spec.class_names == ("pet01", "pet02", "pet07")


def test_copies_an_archive(pets, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "p"), "zip", pets)
    import_source(tmp_path / "p.zip", "animals", tmp_path / "root")
    assert (tmp_path / "root" / "animals.zip").read_bytes() == Path(archive).read_bytes()


def test_writes_records_that_are_a_source_again(pets, tmp_path):
    imported = import_source(pets, "animals", tmp_path / "root", records=True)
    assert (tmp_path / "root" / "animals" / "0.tfrecords").is_file()
    original = opened(pets)
    assert imported.spec.class_names == original.spec.class_names
    difference = imported.image(3, 2).astype(int) - original.image(3, 2)
    assert np.abs(difference).mean() < 10  # JPEG of noise


def test_imports_known_data_sets_as_what_they_are(tmp_path):
    write_quickdraw(tmp_path / "q")
    imported = import_source(tmp_path / "q", "quickdraw", tmp_path / "root")
    assert imported.spec.name == "quickdraw"


@pytest.mark.parametrize("name", ["a/b", "..", "", "glyphs", "records"])
def test_refuses_names_that_are_none(pets, tmp_path, name):
    with pytest.raises(DataError, match="a name may hold letters"):
        import_source(pets, name, tmp_path / "root")


def test_a_taken_name_or_a_bad_data_set_leaves_nothing_behind(pets, tmp_path):
    root = tmp_path / "root"
    import_source(pets, "animals", root)
    before = sorted(root.rglob("*"))
    with pytest.raises(DataError, match="'animals' is taken by this data set; remove it"):
        import_source(pets, "animals", root)
    (tmp_path / "s.json").write_text('{"animals": {"train": []}}')
    with pytest.raises(DataError, match="no splits of 'plants'"):
        import_source(pets, "plants", root, tmp_path / "s.json")
    with pytest.raises(DataError, match="has its own splits"):
        import_source(pets, "omniglot", root, tmp_path / "s.json")
    (pets / "pet03" / "1.png").write_bytes(b"cut")
    with pytest.raises(DataError, match=r"pet03/1.png"):
        import_source(pets, "plants", root, records=True)
    assert sorted(root.rglob("*")) == before


def test_a_contact_sheet_shows_a_row_per_class():
    page = sheet(Glyphs(), "test", classes=7, images=5, size=30)
    assert page.size == (150 + 5 * 32, 7 * 32)
    assert len(page.getcolors(1 << 16)) > 10
