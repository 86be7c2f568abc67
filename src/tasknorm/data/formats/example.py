"""One `tf.train.Example` of Meta-Dataset: an encoded image and its label, without protobuf.

Written from the wire format (protobuf.dev/programming-guides/encoding) and TensorFlow's `example.proto` and
`feature.proto`: Example {1: Features}, Features {1: map entry {1: name, 2: Feature}}, Feature {1: list of
bytes, 3: list of integers}. Fields may come in any order; those that are not known are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from tasknorm.errors import DataError

Field: TypeAlias = tuple[int, int | memoryview]

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5  # wire types
BYTES_LIST, INT64_LIST = 1, 3


def encode_example(image: bytes, label: int) -> bytes:
    """The example that holds an encoded image (JPEG, PNG) and its label, a class id.

    >>> decode_example(encode_example(b"jpeg", 7))
    (b'jpeg', 7)
    """
    packed = _delimited(1, _varint(label & 0xFFFFFFFFFFFFFFFF))
    features = (
        (b"image", _delimited(BYTES_LIST, _delimited(1, image))),
        (b"label", _delimited(INT64_LIST, packed)),
    )
    entries = (_delimited(1, _delimited(1, name) + _delimited(2, feature)) for name, feature in features)
    return _delimited(1, b"".join(entries))


def decode_example(payload: bytes) -> tuple[bytes, int]:
    """The image and label of an example.

    Raises:
        DataError: if the bytes are no example, or hold not exactly one image and one label.
    """
    images: list[bytes] = []
    labels: list[int] = []
    for name, feature in _features(memoryview(payload)):
        if name == b"image":
            images = [bytes(value) for value in islice(_bytes_list(feature), 2)]
        elif name == b"label":
            labels = list(islice(_int64_list(feature), 2))
    if len(images) != 1 or len(labels) != 1:
        counts = f"{_amount(images)} image and {_amount(labels)} label"
        raise DataError(f"an example must hold one image (bytes) and one label (int64), got {counts}; convert it")
    return images[0], labels[0]


def _amount(values: list[bytes] | list[int]) -> str:
    return ("no", "one", "more than one")[len(values)]


def _features(example: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    for features in _messages(example, 1):
        for entry in _messages(features, 1):
            name, feature = b"", entry[:0]
            for number, value in _fields(entry):
                if isinstance(value, memoryview):
                    name = bytes(value) if number == 1 else name
                    feature = value if number == 2 else feature
            yield name, feature


def _bytes_list(feature: memoryview) -> Iterator[memoryview]:
    for values in _messages(feature, BYTES_LIST):
        yield from _messages(values, 1)


def _int64_list(feature: memoryview) -> Iterator[int]:
    """Integers come packed, or each in a field of its own."""
    for values in _messages(feature, INT64_LIST):
        for number, value in _fields(values):
            if number == 1 and isinstance(value, int):
                yield _signed(value)
            elif number == 1 and isinstance(value, memoryview):
                position = 0
                while position < len(value):
                    integer, position = _read_varint(value, position)
                    yield _signed(integer)


def _messages(buffer: memoryview, wanted: int) -> Iterator[memoryview]:
    """The values with field number `wanted` that have a length."""
    for number, value in _fields(buffer):
        if number == wanted and isinstance(value, memoryview):
            yield value


def _fields(buffer: memoryview) -> Iterator[Field]:
    """Number and value of each field; fixed-width values, which no image or label has, are skipped."""
    position = 0
    while position < len(buffer):
        key, position = _read_varint(buffer, position)
        wire = key & 7
        if wire == VARINT:
            value, position = _read_varint(buffer, position)
            yield key >> 3, value
            continue
        if wire == DELIMITED:
            length, position = _read_varint(buffer, position)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise DataError(
                f"the example is corrupt: a field must have wire type 0, 1, 2 or 5, got {wire}; copy it again"
            )
        if length > len(buffer) - position:
            raise DataError(
                f"the example is corrupt: a field claims {length} bytes where {len(buffer) - position} are left; copy "
                "it again"
            )
        if wire == DELIMITED:
            yield key >> 3, buffer[position : position + length]
        position += length


def _read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """An integer of 7 bits per byte, lowest first, and the position after it."""
    if position < len(buffer) and buffer[position] < 0x80:  # nearly always, so it is worth a line
        return buffer[position], position + 1
    result = 0
    for shift, byte in zip(range(0, 70, 7), buffer[position : position + 10], strict=False):
        result |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, position
    raise DataError("the example is corrupt: an integer does not end within 10 bytes and its message; copy it again")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _delimited(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | DELIMITED) + _varint(len(value)) + value
