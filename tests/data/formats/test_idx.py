"""Idx files: what MNIST holds, and whatever can be wrong with a file."""

import gzip
import struct
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasknorm.data.formats.idx import read_idx
from tasknorm.errors import DataError

reuses_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def idx(array, kind=8):
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("array", [IMAGES, IMAGES.ravel()])
def test_what_is_written_is_read(tmp_path, pack, array):
    (tmp_path / "images").write_bytes(pack(idx(array)))
    np.testing.assert_array_equal(read_idx(tmp_path / "images"), array)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "starts with two zeros"),
        (b"\x89PNG", "got b'.x89PNG'"),
        (idx(IMAGES, kind=0x0D), "type 0x0d"),
        (b"\0\0\x08\0", "1 to 8 dimensions, got 0"),
        (b"\0\0\x08\xff" + bytes(2000), "got 255"),
        (idx(IMAGES)[:10], "cut off at byte 10"),
        (idx(IMAGES)[:-1], r"byte 39: the data ends here, .* needs 40 bytes"),
        (idx(IMAGES) + b"\0", "byte 40: data follows"),
        (idx(np.zeros((0, 28, 28), np.uint8)), "no dimension may be 0"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "268,435,456 bytes at most"),
    ],
)
def test_wrong_files(tmp_path, pack, content, message):
    (tmp_path / "images").write_bytes(pack(content))
    with pytest.raises(DataError, match=message) as error:
        read_idx(tmp_path / "images")
    assert str(tmp_path / "images") in str(error.value)


@pytest.mark.parametrize("change", [lambda z: z[:-9], lambda z: z[:-1] + b"x", lambda z: z[:20] + b"xx" + z[22:]])
def test_corrupt_gzip(tmp_path, change):
    (tmp_path / "images.gz").write_bytes(change(gzip.compress(idx(IMAGES))))
    with pytest.raises(DataError, match=r"images\.gz: the file cannot be read"):
        read_idx(tmp_path / "images.gz")


def test_no_file(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(tmp_path / "images")


def peak(path):
    tracemalloc.start()
    with pytest.raises(DataError):
        read_idx(path)
    result = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result


def test_a_large_shape_allocates_nothing(tmp_path):
    (tmp_path / "images").write_bytes(b"\0\0\x08\x01" + struct.pack(">I", 1 << 30) + b"few")
    assert peak(tmp_path / "images") < 5_000_000


def test_a_gzip_that_expands_beyond_its_shape(tmp_path):
    (tmp_path / "images").write_bytes(gzip.compress(idx(IMAGES) + bytes(100_000_000)))
    assert peak(tmp_path / "images") < 5_000_000


@reuses_a_folder
@given(st.binary(max_size=100), st.sampled_from([b"", b"\0\0\x08", b"\x1f\x8b\x08\0", b"\0\0\x08\x02\0\0\0"]))
def test_noise_gives_our_error(tmp_path, content, start):
    (tmp_path / "images").write_bytes(start + content)
    with suppress(DataError):
        assert read_idx(tmp_path / "images").size <= len(content)


@reuses_a_folder
@given(st.data())
def test_any_changed_byte_gives_our_error_or_an_array(tmp_path, data):
    content = bytearray(gzip.compress(idx(IMAGES), mtime=0))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    (tmp_path / "images").write_bytes(content)
    with suppress(DataError):
        assert read_idx(tmp_path / "images").size == IMAGES.size


@pytest.mark.realdata
def test_mnist(data_root):
    images = read_idx(data_root / "t10k-images-idx3-ubyte.gz")
    labels = read_idx(data_root / "t10k-labels-idx1-ubyte.gz")
    assert images.shape == (10_000, 28, 28)
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
