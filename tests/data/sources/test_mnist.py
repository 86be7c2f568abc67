"""MNIST's two files."""

from __future__ import annotations

import numpy as np
import pytest

from support.data_files import idx, noise
from tasknorm.data.sources.mnist import Mnist
from tasknorm.errors import DataError


def test_images_go_to_their_labels_class(data_folder):
    source = Mnist(data_folder / "mnist")
    assert source.spec.splits["test"].images == (4,) * 10
    np.testing.assert_array_equal(source.image(3, 2)[:, :, 0], noise(0, 40, 28, 28)[23])
    assert source.where(3, 2).endswith("image 23")


@pytest.mark.parametrize(
    ("images", "labels"),
    [((3, 28, 28), [1, 2]), ((2, 28, 28), [1, 12]), ((2, 784), [1, 2])],
)
def test_files_that_do_not_belong_together_are_an_error(tmp_path, images, labels):
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(noise(0, *images)))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(np.array(labels, np.uint8)))
    with pytest.raises(DataError, match=r"as many images .* as labels from 0 to 9"):
        Mnist(tmp_path)


def test_a_missing_or_cut_file_is_an_error(tmp_path):
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(noise(0, 4, 28, 28))[:-5])
    with pytest.raises(DataError, match=r"there is no t10k-labels-idx1-ubyte here, .*; fetch it"):
        Mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(np.arange(4, dtype=np.uint8)))
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte, byte 3147"):
        Mnist(tmp_path)
