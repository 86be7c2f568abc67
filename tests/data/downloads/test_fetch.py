"""Fetching whole data sets."""

from __future__ import annotations

import pytest

from tasknorm.data.downloads import fetch as module
from tasknorm.data.downloads.fetch import fetch
from tasknorm.errors import DataError


@pytest.fixture
def asked(monkeypatch):
    """What would be downloaded, and where to; downloads themselves have their own tests."""
    seen = []
    monkeypatch.setattr(module, "download", lambda url, path, **expected: seen.append((url, path, expected)))
    return seen


@pytest.mark.parametrize("name", ["omniglot", "omniglot_vinyals"])
def test_fetches_every_file_into_the_data_sets_folder(asked, tmp_path, name):
    assert fetch(name, tmp_path) == tmp_path / "omniglot"
    assert [path.name for _, path, _ in asked] == ["images_background.zip", "images_evaluation.zip"]
    assert all(url.startswith("https://") and expected["md5"] for url, _, expected in asked)


def test_fetches_classes_of_quickdraw(asked, tmp_path):
    fetch("quickdraw", tmp_path, ["The Eiffel Tower", "cat"])
    assert [path for _, path, _ in asked] == [tmp_path / "quickdraw" / f"{n}.npy" for n in ("The Eiffel Tower", "cat")]


@pytest.mark.parametrize(
    ("name", "classes", "rule"),
    [
        ("quickdraw", [], "name those you want: --class"),
        ("mnist", ["7"], "only quickdraw is downloaded by class"),
        (
            "mini_imagenet",
            [],
            r"no download is known for 'mini_imagenet'; known: omniglot, .*`tasknorm data list` says how",
        ),
    ],
)
def test_says_what_cannot_be_fetched(asked, tmp_path, name, classes, rule):
    with pytest.raises(DataError, match=rule):
        fetch(name, tmp_path, classes)
    assert asked == []
