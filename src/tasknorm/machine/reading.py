"""Reading a stranger's file: one that ends, is of bearable size, and whose JSON holds what JSON can hold."""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, Never

from tasknorm.errors import at, reason

LARGEST_TEXT = 1 << 28  # bytes of a JSON or TOML file


def open_regular(path: Path) -> BinaryIO:
    """A file opened for reading.

    Raises:
        OSError: if it cannot be opened, or is no regular file: a pipe or a device may never end.
    """
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise OSError("a link to nothing" if path.is_symlink() else "there is no such file") from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError("not a regular file")
    return os.fdopen(file, "rb")


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of a file of at most so many.

    Raises:
        OSError: as `open_regular`, and if the file is larger.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(f"{size:,} bytes, and at most {most:,} are read")
        return file.read(size)


def read_json(path: Path, wrong: type[ValueError], fix: str) -> Any:
    """The value in a JSON file of at most 256 MiB, all of whose numbers are finite.

    Args:
        path: the file.
        wrong: the error to raise.
        fix: what the reader of its message can do.

    Raises:
        ValueError: `wrong`, if it cannot be read; names the file, the place and the rule.
    """
    try:
        return parsed_json(read_regular(path, LARGEST_TEXT))
    except OSError as error:
        raise wrong(f"{at(path)}: the file cannot be read ({reason(error)}); {fix}") from None
    except ValueError as error:
        raise wrong(f"{at(path)}: this is not a JSON file ({reason(error)}); {fix}") from None


def parsed_json(text: bytes) -> Any:
    """The value that UTF-8 text in JSON stands for.

    Raises:
        ValueError: if it is something else, is nested too deeply, or holds a number that is not finite.

    >>> parsed_json(b'{"way": 1e999}')
    Traceback (most recent call last):
    ValueError: numbers must be finite, got 1e999
    """
    try:
        return json.loads(text.decode(), parse_constant=_not_finite, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _not_finite(text)


def _not_finite(text: str) -> Never:
    raise ValueError(f"numbers must be finite, got {text[:40]}")
