"""CIFAR's binary files; its pickles are refused."""

from __future__ import annotations

import io
import pickle
import tarfile

import numpy as np
import pytest

from support.data_files import cifar_records, encoded, noise
from tasknorm.data.sources.cifar import cifar10, cifar100
from tasknorm.errors import DataError


def test_reads_the_official_archive_without_unpacking_it(data_folder):
    source = cifar10(data_folder / "cifar10")
    assert source.spec.class_names[3] == "cat"
    assert source.spec.splits["test"].images == (4,) * 10
    expected = noise(13, 3072).reshape(3, 32, 32).transpose(1, 2, 0)  # the second of label 3
    np.testing.assert_array_equal(source.image(3, 1), expected)


def test_reads_unpacked_binary_files_by_their_fine_label(data_folder):
    source = cifar100(data_folder / "cifar100")
    assert source.spec.splits["test"].images == (3,) * 100
    np.testing.assert_array_equal(source.image(42, 2), noise(242, 3072).reshape(3, 32, 32).transpose(1, 2, 0))


def test_reads_class_folders(tmp_path):
    for name in ("ship", "bird"):
        (tmp_path / "c" / name).mkdir(parents=True)
        (tmp_path / "c" / name / "1.png").write_bytes(encoded(noise(0, 32, 32, 3)))
    spec = cifar10(tmp_path / "c").spec
    assert spec.class_names == ("bird", "ship")
    assert spec.splits["test"].classes == (0, 1)


def test_refuses_pickles_and_points_to_the_binary_archive(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        for name in ("data_batch_1", "test_batch", "batches.meta"):
            content = pickle.dumps(Evil())
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    (tmp_path / "cifar-100-python").mkdir()
    (tmp_path / "cifar-100-python" / "meta").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataError, match=r"is refused, .*; fetch cifar-10-binary.tar.gz instead"):
        cifar10(tmp_path / "cifar-10-python.tar.gz")
    with pytest.raises(DataError, match=r"is refused, .*; fetch cifar-100-binary.tar.gz instead"):
        cifar100(tmp_path / "cifar-100-python")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("records", "rule"),
    [
        (cifar_records(10, 4)[:-1], "whole records of 3073 bytes, got 12291 bytes: the last is cut off at byte 9219"),
        (b"", "whole records"),
        (cifar_records(10, 4) + b"\x0b" + bytes(3072), "byte 12292: a label must be below 10, .* got 11"),
    ],
)
def test_broken_records_are_errors(tmp_path, records, rule):
    (tmp_path / "test_batch.bin").write_bytes(records)
    (tmp_path / "batches.meta.txt").write_text("\n".join("abcdefghij"))
    with pytest.raises(DataError, match=rf"{rule}.*fetch it again"):
        cifar10(tmp_path)


def test_a_cut_archive_and_an_incomplete_one_are_errors(data_folder, tmp_path):
    whole = (data_folder / "cifar10" / "cifar-10-binary.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[:9000])
    with pytest.raises(DataError, match=r"cut.tar.gz: .*fetch it again"):
        cifar10(tmp_path / "cut.tar.gz")
    with pytest.raises(DataError, match=r"there is no test.bin inside"):
        cifar100(data_folder / "cifar10")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "data_batch_1.bin").write_bytes(b"")
    with pytest.raises(DataError, match="unpack the whole archive"):
        cifar10(tmp_path / "c")
