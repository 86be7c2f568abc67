"""The header of a `.npy` file of bytes (numpy's `NEP 1`), read without evaluating it as Python."""

from __future__ import annotations

import math
import re

START = 1 << 10  # bytes that hold the header of any array of bytes
MAGIC = b"\x93NUMPY"
BYTES = re.compile(r"'descr': *'\|u1'")
ROWS_FIRST = re.compile(r"'fortran_order': *False")
SHAPE = re.compile(r"'shape': *\(([0-9]{1,18}L?(?:, *[0-9]{1,18}L?)*),?\)")


def npy_header(start: bytes, size: int) -> tuple[tuple[int, ...], int]:
    """The shape of an array of bytes, and where its data begins.

    Args:
        start: the first `START` bytes of the file, or all if there are fewer.
        size: bytes of the whole file.

    Raises:
        ValueError: if it is no such file, or is shorter or longer than its shape says; says what it is.
    """
    if start[:6] != MAGIC or len(start) < 12:
        raise ValueError(f"a file that begins with {start[:6]!r}")
    begin, width = (10, 2) if start[6] == 1 else (12, 4)
    end = begin + int.from_bytes(start[8 : 8 + width], "little")
    header = start[begin:end].decode("latin-1")
    shape = SHAPE.search(header)
    if end > len(start) or not (shape and BYTES.search(header) and ROWS_FIRST.search(header)):
        raise ValueError(f"the header {header[:80]!r}")
    sides = tuple(int(side.strip(" L")) for side in shape[1].split(","))
    if size != end + math.prod(sides):
        raise ValueError(f"{size:,} bytes for the shape {sides}")
    return sides, end
