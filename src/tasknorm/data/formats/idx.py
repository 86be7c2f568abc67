"""MNIST's idx files (yann.lecun.com/exdb/mnist): an array of bytes behind a header that holds its shape."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tasknorm.errors import DataError, at, reason
from tasknorm.machine import open_regular

UNSIGNED_BYTE = 0x08
MOST_DIMENSIONS = 8
LARGEST = 1 << 28  # bytes of an array, unzipped; MNIST's 10,000 test images have 8 million
CHUNK = 1 << 20
AGAIN = "download the file again"


def read_idx(path: Path | str) -> NDArray[np.uint8]:
    """The array of an idx file, plain or gzipped, of at most 256 MiB.

    Returns:
        For MNIST `(images, 28, 28)` or `(labels,)`.

    Raises:
        DataError: if the file is truncated, corrupt, of another format or too large.
    """
    path = Path(path)
    try:
        with open_regular(path) as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if not zipped:
                return _read(file, path)
            with gzip.GzipFile(fileobj=file) as unzipped:
                return _read(unzipped, path)  # type: ignore[arg-type]  # it reads like a file
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{at(path)}: the file cannot be read ({reason(error)}); {AGAIN}") from error


def _read(file: BinaryIO, path: Path) -> NDArray[np.uint8]:
    shape = _shape(file, path)
    size, start = math.prod(shape), 4 + 4 * len(shape)
    if size > LARGEST:
        raise DataError(
            f"{at(path, 'header')}: an idx file may hold {LARGEST:,} bytes at most, got the shape {shape}; split it"
        )
    content = bytearray()
    while len(content) <= size and (chunk := file.read(min(CHUNK, size + 1 - len(content)))):
        content += chunk
    if len(content) < size:
        raise DataError(
            f"{at(path, f'byte {start + len(content)}')}: the data ends here, and the shape {shape} needs "
            f"{start + size} bytes; {AGAIN}"
        )
    if len(content) > size:
        raise DataError(
            f"{at(path, f'byte {start + size}')}: data follows where the shape {shape} says that it ends; {AGAIN}"
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def _shape(file: BinaryIO, path: Path) -> tuple[int, ...]:
    where, magic = at(path, "header"), file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise DataError(f"{where}: an idx file starts with two zeros and a type, got {magic!r}; pass another file")
    if magic[2] != UNSIGNED_BYTE:
        raise DataError(f"{where}: the numbers must be bytes (type 0x08), got type {magic[2]:#04x}; convert the file")
    dimensions = magic[3]
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise DataError(f"{where}: an array has 1 to {MOST_DIMENSIONS} dimensions, got {dimensions}; pass another file")
    header = file.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise DataError(f"{where}: the header is cut off at byte {4 + len(header)}; {AGAIN}")
    shape = struct.unpack(f">{dimensions}I", header)
    if 0 in shape:
        raise DataError(f"{where}: no dimension may be 0, got the shape {shape}; {AGAIN}")
    return shape
