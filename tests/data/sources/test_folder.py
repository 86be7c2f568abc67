"""Anybody's own images."""

from __future__ import annotations

import json
import shutil

import pytest

from support.data_files import encoded, noise, write_pets
from tasknorm.data import FixedSampler, Folder
from tasknorm.data.check import bad_images
from tasknorm.errors import DataError


@pytest.fixture
def pets(tmp_path):
    write_pets(tmp_path / "pets", classes=10, images=3)
    return tmp_path / "pets"


def test_splits_the_classes_itself_in_the_same_way_everywhere(pets):
    splits = Folder(pets).spec.splits
    assert [len(splits[split].classes) for split in ("train", "valid", "test")] == [6, 2, 2]
    names = Folder(pets).spec.class_names
    assert [names[i] for i in splits["test"].classes] == ["pet06", "pet09"]  # by SHA-256: on any machine


@pytest.mark.parametrize(("classes", "sizes"), [(1, [1, 0, 0]), (3, [3, 0, 0]), (4, [2, 1, 1]), (20, [14, 3, 3])])
def test_few_classes_go_to_training_first(tmp_path, classes, sizes):
    write_pets(tmp_path / "pets", classes=classes, images=1)
    splits = Folder(tmp_path / "pets").spec.splits
    assert [len(splits[split].classes) for split in ("train", "valid", "test")] == sizes


def test_takes_splits_as_a_mapping_or_a_file_with_or_without_names(pets, tmp_path):
    splits = {"train": ["pet03", "pet01"], "test": ["pet02"]}
    (tmp_path / "a.json").write_text(json.dumps(splits))
    (tmp_path / "b.json").write_text(json.dumps({"pets": splits, "others": {}}))
    for given in (splits, tmp_path / "a.json", str(tmp_path / "b.json")):
        spec = Folder(pets, given).spec
        assert spec.class_names == ("pet01", "pet03", "pet02")
        assert spec.splits["train"].images == (3, 3)
        assert spec.splits["valid"].classes == ()


def test_skips_folders_around_it_and_files_that_are_no_images(pets, tmp_path):
    shutil.copytree(pets, tmp_path / "outer" / "inner" / "pets")
    (tmp_path / "outer" / "inner" / "readme.txt").write_text("hello")
    spec = Folder(tmp_path / "outer").spec
    assert len(spec.class_names) == 10
    archive = shutil.make_archive(str(tmp_path / "outer"), "zip", tmp_path / "outer")
    assert Folder(archive).spec == spec


def test_images_beside_their_classes_are_an_error(pets):
    (pets / "stray.png").write_bytes(encoded(noise(0, 4, 4)))
    with pytest.raises(DataError, match=r"pets: images must lie in one folder per class.*'stray.png'; move it"):
        Folder(pets)


def test_a_folder_without_images_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no images in <class>/<image> files, got 0 other files; correct the path"):
        Folder(tmp_path / "empty")


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("{", "not a JSON file"),
        ('{"train": ["pet00", "dragon"]}', "'dragon'.*not among the 10 classes found"),
        ('{"train": ["pet00"], "test": ["pet00"]}', "each class in one"),
        ('{"train": "pet00"}', "lists of class names"),
        ('{"train": [7]}', "lists of class names"),
        ('{"train": [], "extra": []}', "lists of class names"),
        ('{"pets": 3}', "lists of class names"),
        ("[]", "lists of class names"),
    ],
)
def test_wrong_splits_are_errors(pets, tmp_path, content, rule):
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(DataError, match=rf"(s.json|pets): .*{rule}.*; correct"):
        Folder(pets, tmp_path / "s.json")


def test_too_few_images_or_classes_for_an_episode_are_errors(pets):
    split = Folder(pets).spec.splits["train"]
    with pytest.raises(DataError, match=r"needs 4 images of a class .* has 3; ask for fewer"):
        FixedSampler(split, way=5, shot=1, targets=3)
    with pytest.raises(DataError, match="20 ways needs as many classes, and the split has 6"):
        FixedSampler(split, way=20, shot=1, targets=1)


def test_each_bad_file_is_reported(pets):
    (pets / "pet04" / "1.png").write_bytes((pets / "pet04" / "1.png").read_bytes()[:60])
    (pets / "pet07" / "0.png").write_bytes(b"")
    messages = [image.why for image in bad_images(Folder(pets))]
    assert len(messages) == 2
    assert sorted(message.split(":")[0][-11:] for message in messages) == ["pet04/1.png", "pet07/0.png"]
