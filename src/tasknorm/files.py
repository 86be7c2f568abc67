"""Files and folders that are whole or absent: written under another name, then renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from tasknorm.errors import DataError


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes its name when the block ends without an error; until then an old file stays.

    Safe with several writers of one path: each has its own temporary file, and the last to finish wins.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = temporary_name(path)
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file."""
    with atomic_file(path) as file:
        file.write(content)


def temporary_name(path: Path) -> Path:
    """A name beside `path` that nobody else uses, for something that is not whole yet."""
    return path.with_name(f".{path.name}.{uuid4().hex}.part")


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A new folder that takes its name when the block ends without an error; after an error nothing is left.

    Raises:
        DataError: if there is something of that name already.
    """
    _check_absent(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = temporary_name(path)
    part.mkdir()
    try:
        yield part
        _check_absent(path)
        part.rename(path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _check_absent(path: Path) -> None:
    if os.path.lexists(path):
        raise DataError(f"{path}: a new folder needs a free name, this one is taken; remove it or choose another")
