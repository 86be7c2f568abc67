"""Record files: against the `tfrecord` package, and whatever can be wrong with a file."""

import struct
import tracemalloc
from contextlib import suppress

import pytest
import tfrecord
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasknorm.data.formats.dataset_spec import read_spec
from tasknorm.data.formats.example import encode_example
from tasknorm.data.formats.tfrecords import RecordFile, frame, write_record_file, write_records
from tasknorm.data.spec import Spec, Split
from tasknorm.errors import DataError

reuses_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

LETTERS = Spec(
    "letters",
    ("Ogham-1", "Greek-2", "Runic-1", "Greek-1"),
    {
        "test": Split((0,), (3,), ((0,),), "bilevel", ("Ogham",)),
        "train": Split((1, 2, 3), (1, 2, 1), ((1,), (0, 2)), "bilevel", ("Runic", "Greek")),
    },
)
IMAGES = {"Ogham-1": [b"a", b"b", b"c"], "Greek-2": [b"d"], "Runic-1": [b"e", b"f"], "Greek-1": [b"g"]}


@pytest.fixture
def path(tmp_path):
    """Three images of class 5."""
    write_record_file(tmp_path / "5.tfrecords", [b"first", b"", b"x" * 1000], label=5)
    return tmp_path / "5.tfrecords"


def test_random_access(path):
    file = RecordFile(path)
    assert len(file) == 3
    assert list(file.examples([2, 0])) == [(b"x" * 1000, 5), (b"first", 5)]
    assert [image for image, _ in file.examples()] == [b"first", b"", b"x" * 1000]


@reuses_a_folder
@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5), st.integers(0, 2**40))
def test_tfrecord_reads_what_we_write(tmp_path, images, label):
    write_record_file(tmp_path / "0.tfrecords", images, label)
    kinds = {"image": "byte", "label": "int"}
    found = list(tfrecord.tfrecord_loader(str(tmp_path / "0.tfrecords"), None, kinds))
    assert [bytes(example["image"]) for example in found] == images
    assert all(example["label"].tolist() == [label] for example in found)


@reuses_a_folder
@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(0, 2**40))
def test_we_read_what_tfrecord_writes(tmp_path, images, label):
    writer = tfrecord.TFRecordWriter(str(tmp_path / "0.tfrecords"))
    for image in images:
        writer.write({"image": (image, "byte"), "label": (label, "int")})
    writer.close()
    assert list(RecordFile(tmp_path / "0.tfrecords").examples()) == [(image, label) for image in images]


def read_all(path):
    return list(RecordFile(path).examples())


@pytest.mark.parametrize("cut", [1, 4, 500, 1020, 1040])
def test_truncated(path, cut):
    last = int(RecordFile(path).offsets[2])
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DataError, match=rf"5\.tfrecords, record at byte {last}: the record is cut off"):
        read_all(path)


@pytest.mark.parametrize(("position", "part"), [(0, "length"), (9, "length"), (20, "content"), (-1, "content")])
def test_corrupt(path, position, part):
    second, third = RecordFile(path).offsets[1:3].tolist()
    content = bytearray(path.read_bytes())
    content[position + (second if position >= 0 else third)] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"5\.tfrecords, record at byte {second}: the record's {part} does not"):
        read_all(path)


def test_file_shortened_after_the_index_was_read(path):
    file = RecordFile(path)
    assert len(file) == 3
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DataError, match="cut off"):
        list(file.examples([2]))


def test_a_record_without_an_example(path):
    path.write_bytes(frame(b"") + frame(b"\xff"))
    with pytest.raises(DataError, match=r"5\.tfrecords, record at byte 16: the example is corrupt: an integer"):
        list(RecordFile(path).examples([1]))


def test_a_huge_length_allocates_nothing(path):
    length = struct.pack("<Q", 2**62)
    path.write_bytes(length + frame(b"")[8:12] + b"x" * 100)
    tracemalloc.start()
    with pytest.raises(DataError, match="byte 0"):
        read_all(path)
    good = struct.pack("<QI", 2**62, struct.unpack("<I", _masked(length))[0])
    path.write_bytes(good + b"x" * 100)
    with pytest.raises(DataError, match="cut off"):
        read_all(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def _masked(data):
    return tfrecord.TFRecordWriter.masked_crc(data)


def test_no_such_record(path):
    with pytest.raises(DataError, match="there are 3 records, and number 3"):
        list(RecordFile(path).examples([3]))


def test_no_such_file(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        len(RecordFile(tmp_path / "9.tfrecords"))


@reuses_a_folder
@given(st.binary(max_size=200))
def test_noise_gives_our_error(tmp_path, content):
    (tmp_path / "0.tfrecords").write_bytes(content)
    with suppress(DataError):
        assert read_all(tmp_path / "0.tfrecords") == []


@reuses_a_folder
@given(st.data())
def test_any_changed_byte_is_noticed(tmp_path, data):
    content = bytearray(frame(encode_example(b"image", 3)) + frame(encode_example(b"other", 3)))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    (tmp_path / "0.tfrecords").write_bytes(content)
    with pytest.raises(DataError, match=r"0\.tfrecords"):
        read_all(tmp_path / "0.tfrecords")


def test_a_source_is_written_whole(tmp_path):
    folder = tmp_path / "new" / "letters"
    spec = write_records(folder, LETTERS, IMAGES.items())
    assert spec.class_names == ("Runic-1", "Greek-2", "Greek-1", "Ogham-1")
    assert spec.splits["train"].groups == ((0,), (1, 2))
    assert read_spec(folder).splits["train"] == spec.splits["train"]
    for class_id, name in enumerate(spec.class_names):
        assert read_all(folder / f"{class_id}.tfrecords") == [(image, class_id) for image in IMAGES[name]]
    assert [path.name for path in folder.parent.iterdir()] == ["letters"]


def broken():
    yield b"a"
    raise OSError("no space left")


@pytest.mark.parametrize(
    ("classes", "error", "message"),
    [
        ([*IMAGES.items(), ("Greek-1", [b"h"])], DataError, "class 'Greek-1' is not in the spec, or came twice"),
        ([*IMAGES.items(), ("Thai-1", [b"h"])], DataError, "class 'Thai-1' is not in the spec"),
        (list(IMAGES.items())[1:], DataError, "'Ogham-1' of the spec has no images"),
        ([("Ogham-1", broken())], OSError, "no space"),
    ],
)
def test_a_source_that_fails_leaves_nothing(tmp_path, classes, error, message):
    with pytest.raises(error, match=message):
        write_records(tmp_path / "letters", LETTERS, classes)
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_stays(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="this one is taken"):
        write_records(tmp_path, LETTERS, IMAGES.items())
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_specs_that_cannot_be_written_fail_first(tmp_path):
    dag = Spec("tree", ("a",), {"train": Split((0,), (1,), ((0,),), "dag")})
    with pytest.raises(DataError, match="all plain or all bilevel"):
        write_records(tmp_path / "tree", dag, iter([("a", broken())]))
    twins = Spec("twins", ("a", "a"), {"train": Split((0, 1), (1, 1))})
    with pytest.raises(DataError, match="have the same name"):
        write_records(tmp_path / "twins", twins, [])
