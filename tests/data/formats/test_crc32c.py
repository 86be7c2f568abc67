"""CRC-32C against RFC 3720's examples and an independent implementation."""

import crc32c as independent
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasknorm.data.formats.crc32c import CHUNK, crc32c, masked_crc32c


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"", 0),
    ],
)
def test_examples_of_the_standard(data, expected):
    assert crc32c(data) == expected


@given(st.binary(max_size=2000))
def test_any_bytes(data):
    assert crc32c(data) == independent.crc32c(data)


@pytest.mark.parametrize("size", [CHUNK + extra for extra in (-257, -256, -1, 0, 1, 3, 4, 32, 33, CHUNK + 7)])
def test_around_the_size_of_a_chunk(size):
    data = (bytes(range(251)) * (size // 251 + 1))[:size]
    assert crc32c(data) == independent.crc32c(data)


def test_mask():
    assert masked_crc32c(b"123456789") == (((0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF) + 0xA282EAD8) % 2**32
