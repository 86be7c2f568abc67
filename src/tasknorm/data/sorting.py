"""Copies of image files, sorted into a folder for each class; nothing that is there is replaced."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from tasknorm.files import naming, temporary_name

LONGEST = 100  # characters of a folder's name
UNSAFE = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')


def class_folders(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """A folder for each class, by the class's name: whatever the name, it lies in `folder`, and no two are alike.

    >>> [path.name for path in class_folders(Path("birds"), ["heron", "Heron", "a/b", ".."]).values()]
    ['heron', 'Heron 2', 'a_b', '_']
    """
    found: dict[str, Path] = {}
    taken: set[str] = set()
    for name in names:
        plain = UNSAFE.sub("_", name)[:LONGEST].rstrip(". ") or "_"
        plain = f"_{plain[1:]}" if plain.startswith(".") else plain
        numbered = (plain if number == 1 else f"{plain} {number}" for number in count(1))
        free = next(each for each in numbered if each.lower() not in taken)
        taken.add(free.lower())
        found[name] = folder / free
    return found


def copy_into(folder: Path, file: Path) -> Path:
    """Copy a file into a folder, under its own name or, if that is taken, with a number added: the copy's path.

    Raises:
        OSError: if it cannot be written; names the folder.
    """
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        part = temporary_name(folder / "copy")
        try:
            shutil.copy2(file, part)
            for number in count(1):
                place = folder / (file.name if number == 1 else f"{file.stem}-{number}{file.suffix}")
                if _take(part, place):
                    return place
        finally:
            part.unlink(missing_ok=True)
    raise AssertionError("there is always a free name")


def _take(part: Path, place: Path) -> bool:
    """Give a file its name, if that is free."""
    try:
        os.link(part, place)  # fails if the name is taken, unlike a renaming
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if os.path.lexists(place):
            return False
        part.rename(place)
    return True
