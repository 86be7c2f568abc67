"""Quick Draw's bitmaps."""

from __future__ import annotations

import io

import numpy as np
import pytest

from support.data_files import noise
from tasknorm.data.sources.quickdraw import QuickDraw
from tasknorm.errors import DataError


def test_reads_folder_and_archive(data_folder, tmp_path):
    import shutil

    archive = shutil.make_archive(str(tmp_path / "q"), "zip", data_folder / "quickdraw")
    for path in (data_folder / "quickdraw", archive):
        source = QuickDraw(path, {"test": ["cat", "ant"]})
        assert source.spec.class_names == ("ant", "cat")
        np.testing.assert_array_equal(source.image(1, 4), noise(3, 5, 784)[4].reshape(28, 28, 1))


def saved(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        saved(noise(0, 5, 784))[:-1],
        saved(noise(0, 5, 784)) + b"1",
        saved(noise(0, 5, 783)),
        saved(np.zeros((5, 784))),
        saved(np.array([{}], object), allow_pickle=True),
    ],
)
def test_other_files_are_errors(tmp_path, content):
    (tmp_path / "cat.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"cat.npy: a class must be a whole .npy file of uint8 .*fetch it again"):
        QuickDraw(tmp_path)


def test_no_files_are_an_error(tmp_path):
    with pytest.raises(DataError, match=r"there is no <class>.npy file here; correct the path"):
        QuickDraw(tmp_path)
