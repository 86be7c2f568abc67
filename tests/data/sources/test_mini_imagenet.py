"""miniImageNet's lists."""

from __future__ import annotations

import zipfile

import pytest

from tasknorm.data.sources.mini_imagenet import MiniImagenet
from tasknorm.errors import DataError


def test_classes_and_images_are_those_of_the_lists(data_folder):
    source = MiniImagenet(data_folder / "mini_imagenet.zip")
    assert source.spec.class_names[6] == "ng"
    assert source.spec.splits["valid"].images == (4,) * 5
    assert source.where(6, 2).endswith("images/g2.jpg")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"val.csv": None}, "there is no val.csv here; add"),
        (
            {"images/b1.jpg": None},
            "train.csv, line 7: a line must name an image that is here.*'b1.jpg' and 'nb'",
        ),
        ({"test.csv": "a,b\n1,2\n"}, "test.csv, line 2: .*got None and None"),
    ],
)
def test_missing_or_malformed_lists_are_errors(data_folder, tmp_path, change, rule):
    with (
        zipfile.ZipFile(data_folder / "mini_imagenet.zip") as whole,
        zipfile.ZipFile(tmp_path / "m.zip", "w") as part,
    ):
        for name in whole.namelist():
            content = change.get(name, whole.read(name))
            if content is not None:
                part.writestr(name, content)
    with pytest.raises(DataError, match=rule):
        MiniImagenet(tmp_path / "m.zip")
