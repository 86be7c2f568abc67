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

from tasknorm.errors import DataError

UNSIGNED_BYTE = 0x08
MOST_DIMENSIONS = 8
LARGEST = 1 << 30  # bytes; the largest known, of EMNIST, has half as many
CHUNK = 1 << 20


def read_idx(path: Path | str) -> NDArray[np.uint8]:
    """The array of an idx file, plain or gzipped.

    Returns:
        For MNIST `(images, 28, 28)` or `(labels,)`.

    Raises:
        DataError: if the file is truncated, corrupt, of another format or absurdly large.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if not zipped:
                return _read(file, path)
            with gzip.GzipFile(fileobj=file) as unzipped:
                return _read(unzipped, path)  # type: ignore[arg-type]  # it reads like a file
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); download the file again") from error


def _read(file: BinaryIO, path: Path) -> NDArray[np.uint8]:
    shape = _shape(file, path)
    size = math.prod(shape)
    if size > LARGEST:
        raise DataError(f"{path}: an idx file holds at most {LARGEST} bytes, got the shape {shape}; split the file")
    start = 4 + 4 * len(shape)
    content = bytearray()
    while len(content) <= size and (chunk := file.read(min(CHUNK, size + 1 - len(content)))):
        content += chunk
    if len(content) < size:
        raise DataError(
            f"{path}: a shape of {shape} needs {start + size} bytes, the data ends at byte "
            f"{start + len(content)}; download the file again"
        )
    if len(content) > size:
        raise DataError(
            f"{path}: a shape of {shape} needs {start + size} bytes, there are more; download the file again"
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def _shape(file: BinaryIO, path: Path) -> tuple[int, ...]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise DataError(f"{path}: an idx file starts with two zeros and a type, got {magic!r}; pass another file")
    if magic[2] != UNSIGNED_BYTE:
        raise DataError(f"{path}: bytes (type 0x08) are read, got type {magic[2]:#04x}; convert the file")
    dimensions = magic[3]
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise DataError(f"{path}: an array has 1 to {MOST_DIMENSIONS} dimensions, got {dimensions}; pass another file")
    header = file.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise DataError(f"{path}: the header is cut off at byte {4 + len(header)}; download the file again")
    shape = struct.unpack(f">{dimensions}I", header)
    if 0 in shape:
        raise DataError(f"{path}: no dimension is empty, got the shape {shape}; download the file again")
    return shape
