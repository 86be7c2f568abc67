"""A `.npy` file of bytes with a checksum of each MiB, so that a flipped bit is noticed; mapped, never read whole."""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tasknorm.data.formats.npy import START, npy_header
from tasknorm.data.formats.pixels import Pixels
from tasknorm.machine import open_regular

BLOCK = 1 << 20  # bytes under one checksum


class Checksums:
    """The checksums of what is written, a piece at a time.

    >>> written = Checksums()
    >>> written.add(bytes(BLOCK)), written.add(b"123456789"), [hex(each) for each in written.all()]
    (None, None, ['0xa738ea1c', '0xcbf43926'])
    """

    def __init__(self) -> None:
        self._whole: list[int] = []
        self._rest = b""

    def add(self, content: bytes) -> None:
        """Note what was written."""
        self._rest += content
        ends = range(BLOCK, len(self._rest) + 1, BLOCK)
        self._whole += [zlib.crc32(self._rest[end - BLOCK : end]) for end in ends]
        self._rest = self._rest[len(ends) * BLOCK :]

    def all(self) -> list[int]:
        """One for each block, the last of which may be shorter."""
        return self._whole + ([zlib.crc32(self._rest)] if self._rest else [])


@contextmanager
def mapped(path: Path, shape: Sequence[int], checksums: Sequence[int]) -> Iterator[Pixels]:
    """The array in a file.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not of this shape, or there is not a checksum for each block.
    """
    with open_regular(path) as file:
        found, begin = npy_header(file.read(START), size := os.fstat(file.fileno()).st_size)
        if list(found) != list(shape) or len(checksums) != -(-(size - begin) // BLOCK):
            raise ValueError(f"an array of shape {found}")
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        yield np.frombuffer(content, np.uint8, offset=begin).reshape(found)


def damaged(array: Pixels, checksums: Sequence[int], blocks: Iterable[int]) -> list[int]:
    """Those of some blocks that do not have their checksum."""
    flat = array.reshape(-1)
    return [i for i in blocks if zlib.crc32(flat[i * BLOCK : (i + 1) * BLOCK].data) != checksums[i]]
