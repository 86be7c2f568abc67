"""Meta-Dataset's folders as a source."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from support.data_files import encoded, noise
from tasknorm.data.check import bad_images
from tasknorm.data.formats.pixels import decoded
from tasknorm.data.formats.tfrecords import write_record_file
from tasknorm.data.sources.record_folder import RecordFolder
from tasknorm.errors import DataError


@pytest.fixture
def recorded(data_folder, tmp_path):
    return shutil.copytree(data_folder / "recorded", tmp_path / "recorded")


def test_reads_the_images_that_were_written(recorded):
    source = RecordFolder(recorded)
    np.testing.assert_array_equal(source.image(7, 4), decoded(encoded(noise(4, 9, 9, 3), "JPEG"), 3, ""))


def test_a_missing_class_is_an_error(recorded):
    (recorded / "3.tfrecords").unlink()
    with pytest.raises(
        DataError, match=r"3.tfrecords: the file of a class in dataset_spec.json is missing \(1 in all\)"
    ):
        RecordFolder(recorded)


def test_a_spec_that_contradicts_its_files_is_an_error(recorded):
    spec = json.loads((recorded / "dataset_spec.json").read_text())
    spec["images_per_class"]["2"] = 7
    (recorded / "dataset_spec.json").write_text(json.dumps(spec))
    with pytest.raises(DataError, match=r"2.tfrecords: the file holds 6 images, and dataset_spec.json says 7"):
        RecordFolder(recorded).image(2, 0)
    shutil.copy(recorded / "5.tfrecords", recorded / "4.tfrecords")
    with pytest.raises(DataError, match=r"label must be the class id 4, got 5"):
        RecordFolder(recorded).image(4, 0)


def test_bad_records_are_named_with_their_offset(recorded):
    path = recorded / "1.tfrecords"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    write_record_file(recorded / "0.tfrecords", [b"no image"] * 6, 0)
    messages = [image.why for image in bad_images(RecordFolder(recorded))]
    assert len(messages) == 7
    assert "0.tfrecords, record 0: the image does not decode" in messages[0]
    assert "1.tfrecords" in messages[6]
    assert "at byte" in messages[6]


def test_its_fingerprint_follows_its_files(recorded):
    before = RecordFolder(recorded).fingerprint()
    write_record_file(recorded / "0.tfrecords", [b"no image"] * 6, 0)
    assert RecordFolder(recorded).fingerprint() != before
