"""Finding sources by name."""

from __future__ import annotations

import shutil

import pytest

from support.data_files import write_pets
from tasknorm.data import opened
from tasknorm.data.listing import listed
from tasknorm.data.sources.named import present
from tasknorm.errors import DataError


def test_an_unknown_name_lists_what_is_there(data_folder):
    with pytest.raises(DataError, match=r"nothere: .*omniglot.*pets.*recorded.*tasknorm data list"):
        opened("nothere", data_folder)


def test_archives_may_say_more_than_the_name(tmp_path):
    write_pets(tmp_path / "loose" / "pets")
    shutil.make_archive(str(tmp_path / "pets_64px"), "zip", tmp_path / "loose" / "pets")
    assert len(opened("pets", tmp_path).spec.class_names) == 20
    shutil.copy(tmp_path / "pets_64px.zip", tmp_path / "pets_32px.zip")
    with pytest.raises(DataError, match=r"pets_32px.zip, pets_64px.zip; rename"):
        opened("pets", tmp_path)


def test_lists_what_is_there_and_how_to_get_the_rest(data_folder, tmp_path):
    here = {row.name: row for row in listed(data_folder)}
    assert here["omniglot_vinyals"].state == "here"
    assert "4112/688/1692 classes" in here["omniglot_vinyals"].detail
    assert here["pets"].detail.startswith("10/5/5 classes, 120 images")
    rows = {row.name: row for row in listed(tmp_path)}
    assert rows["glyphs"].state == "here"
    assert rows["mnist"].state == "missing"
    assert "tasknorm data download mnist" in rows["mnist"].detail


def test_lists_a_broken_archive_as_broken(tmp_path):
    (tmp_path / "omniglot.zip").write_bytes(b"PK\x03\x04 cut")
    rows = {row.name: row for row in listed(tmp_path)}
    assert rows["omniglot"].state == "broken"
    assert "fetch it again" in rows["omniglot"].detail


def test_names_in_a_splits_file_are_names_of_archives(tmp_path):
    write_pets(tmp_path / "loose" / "pets")
    shutil.make_archive(str(tmp_path / "pets_64px"), "zip", tmp_path / "loose" / "pets")
    splits = (tmp_path / "loose" / "pets.splits.json").read_text()
    (tmp_path / "splits.json").write_text(f'{{"pets": {splits}}}')
    shutil.rmtree(tmp_path / "loose")
    assert present(tmp_path) == ["pets"]
    assert len(opened("pets", tmp_path).spec.splits["train"].classes) == 10
