"""The checksum of TFRecord files: CRC-32C (Castagnoli; RFC 3720, appendix B.4), in numpy.

A CRC is linear: the checksum of a block is the exclusive or of one table entry per byte, chosen by the byte
and its distance from the end. So a block costs one gather instead of a loop over its bytes.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # reflected
BLOCK = 256  # bytes; the table of 256 KiB stays in the processor's cache
CHUNK = 256 * BLOCK  # bytes handled at once: the gather needs eight times as much memory
SHORT = 32


def crc32c(data: bytes) -> int:
    """The CRC-32C of some bytes.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    register = 0xFFFFFFFF
    for start in range(0, len(data), CHUNK):
        chunk = data[start : start + CHUNK]
        register = _bytewise(register, chunk) if len(chunk) <= SHORT else _blockwise(register, chunk)
    return register ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """The checksum as TFRecord files store it: rotated and shifted, since data may hold checksums itself."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _bytewise(register: int, data: bytes) -> int:
    table = _first_table()
    for byte in data:
        register = register >> 8 ^ table[(register ^ byte) & 0xFF]
    return register


def _blockwise(register: int, data: bytes) -> int:
    """The same, a block at a time.

    The register moves into the first four bytes, after which zeros in front of them change nothing.
    """
    values = np.zeros(len(data) + -len(data) % BLOCK, np.intp)
    values[-len(data) :] = np.frombuffer(data, np.uint8)
    first = len(values) - len(data)
    values[first : first + 4] ^= np.frombuffer(register.to_bytes(4, "little"), np.uint8)
    entries = _tables().take(values.reshape(-1, BLOCK) + _columns())
    register = 0
    for block in np.bitwise_xor.reduce(entries, axis=1).tolist():
        register = _skip_block(register) ^ block
    return register


def _skip_block(register: int) -> int:
    """The register after BLOCK zeros."""
    a, b, c, d = _skip_tables()
    return a[register & 0xFF] ^ b[register >> 8 & 0xFF] ^ c[register >> 16 & 0xFF] ^ d[register >> 24]


def _after_zero(register: NDArray[np.uint32]) -> NDArray[np.uint32]:
    table = np.array(_first_table(), np.uint32)
    return (register >> np.uint32(8)) ^ table.take(register & np.uint32(0xFF))


@cache
def _first_table() -> list[int]:
    """The register after one byte."""
    registers = list(range(256))
    for _ in range(8):
        registers = [register >> 1 ^ (POLYNOMIAL if register & 1 else 0) for register in registers]
    return registers


@cache
def _tables() -> NDArray[np.uint32]:
    """The register after a byte and d zeros, at BLOCK - 1 - d: `(BLOCK * 256,)`."""
    rows = [np.array(_first_table(), np.uint32)]
    for _ in range(BLOCK - 1):
        rows.append(_after_zero(rows[-1]))
    return np.concatenate(rows[::-1])


@cache
def _columns() -> NDArray[np.intp]:
    return np.arange(BLOCK, dtype=np.intp) * 256


@cache
def _skip_tables() -> list[list[int]]:
    """What each byte of a register turns into after BLOCK zeros: `(4, 256)`."""
    registers = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    for _ in range(BLOCK):
        registers = _after_zero(registers)
    table: list[list[int]] = registers.tolist()
    return table
