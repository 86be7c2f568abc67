"""One's own image files: those of each class below a folder, and those that words of a command name."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from pathlib import Path

from tasknorm.data.formats.tree import Tree
from tasknorm.data.preparation import Picture, readable
from tasknorm.data.sources.folder import SUFFIXES, files_by_class
from tasknorm.errors import DataError, at, short


def class_pictures(folder: Path, skip_bad: Callable[[str], None] | None = None) -> dict[str, list[Picture]]:
    """The image files of each class, a subfolder each, by the subfolder's name.

    Args:
        folder: holds the subfolders; folders around all of it are skipped.
        skip_bad: images that cannot be read are left out, and this is called with what is wrong with each.

    Raises:
        DataError: if there is no such folder, or no image in subfolders.
    """
    if not folder.is_dir():
        fix = "unpack it, and pass the folder" if folder.is_file() else "correct the path"
        raise DataError(f"{at(folder)}: there is no folder of this name; {fix}")
    found: dict[str, list[Picture]] = {}
    for name, files in files_by_class(Tree(folder)).items():
        paths = [folder / file for file in files]
        found[name] = [path for path in paths if skip_bad is None or readable(path, skip_bad)]
    return found


def named_pictures(words: Iterable[str]) -> list[Path]:
    """The image files that words name: files, folders (all images at any depth), or patterns such as `new/*.jpg`.

    Raises:
        DataError: if a word names no image.
    """
    found: list[Path] = []
    for word in words:
        paths = [Path(word)] if Path(word).exists() or Path(word).is_symlink() else _matching(word)
        for path in paths:
            found += _below(path) if path.is_dir() else [path]
    return found


def _matching(pattern: str) -> list[Path]:
    paths = [Path(path) for path in sorted(glob.glob(pattern, recursive=True))]
    if not paths:
        raise DataError(f"{at(pattern)}: there is no file or folder of this name; correct the path")
    return paths


def _below(folder: Path) -> list[Path]:
    names = Tree(folder).names
    images = [folder / name for name in names if name.lower().endswith(SUFFIXES)]
    if not images:
        raise DataError(
            f"{at(folder)}: there are no images in this folder, got {len(names)} other files; correct the path (images "
            f"end in {short(', '.join(SUFFIXES))[1:-1]})"
        )
    return images
