"""Examples: against the protobuf definition of the `tfrecord` package, and against noise."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tfrecord import example_pb2 as proto

from tasknorm.data.formats.example import decode_example, encode_example
from tasknorm.errors import DataError

int64s = st.integers(-(2**63), 2**63 - 1)


def feature(**lists):
    return proto.Feature(**lists)


def image_feature(*values):
    return feature(bytes_list=proto.BytesList(value=values))


def label_feature(*values):
    return feature(int64_list=proto.Int64List(value=values))


def serialized(**features):
    return proto.Example(features=proto.Features(feature=features)).SerializeToString()


@given(st.binary(max_size=300), int64s)
def test_protobuf_reads_what_we_write(image, label):
    features = proto.Example.FromString(encode_example(image, label)).features.feature
    assert features["image"].bytes_list.value == [image]
    assert features["label"].int64_list.value == [label]


@given(st.binary(max_size=300), int64s, st.floats(width=32, allow_nan=False))
def test_we_read_what_protobuf_writes(image, label, other):
    payload = serialized(
        score=feature(float_list=proto.FloatList(value=[other, other])),
        image=image_feature(image),
        words=image_feature(b"a", b"b"),
        label=label_feature(label),
    )
    assert decode_example(payload) == (image, label)


def test_unpacked_label_and_unknown_fields_in_any_order():
    label = b"\x0a\x05label" + b"\x12\x04\x1a\x02\x08\x07"  # field 3 {field 1: varint 7}, not packed
    image = b"\x12\x05\x0a\x03\x0a\x01x" + b"\x0a\x05image"  # the value comes before the name
    unknown = b"\x48\x01" + b"\x51" + bytes(8) + b"\x5d" + bytes(4) + b"\x62\x02ab"  # fields 9 to 12
    entries = b"".join(b"\x0a" + bytes([len(entry)]) + entry for entry in (label, image))
    payload = unknown + b"\x0a" + bytes([len(entries + unknown)]) + entries + unknown
    assert decode_example(payload) == (b"x", 7)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "got no image and no label"),
        (serialized(image=image_feature(b"x")), "one image and no label"),
        (serialized(image=image_feature(b"x", b"y"), label=label_feature(1)), "more than one image"),
        (serialized(image=label_feature(1), label=label_feature(1, 2)), "no image and more than one label"),
        (b"\x0a\x05", "claims 5 bytes where 0 are left"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "claims 18446744073709551615 bytes"),
        (b"\xff" * 11, "does not end within 10 bytes"),
        (b"\x0b", "wire type 0, 1, 2 or 5, got 3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "payload",
)
def test_no_example(payload, message):
    with pytest.raises(DataError, match=message):
        decode_example(payload)


@given(st.binary(max_size=400))
def test_noise_gives_our_error(payload):
    with suppress(DataError):
        decode_example(payload)


@given(st.data())
def test_a_changed_byte_gives_our_error_or_another_example(data):
    payload = bytearray(encode_example(b"some image", 300))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        image, label = decode_example(bytes(payload[: data.draw(st.integers(0, len(payload)))]))
    except DataError:
        return
    assert len(image) <= len(payload)
    assert isinstance(label, int)
