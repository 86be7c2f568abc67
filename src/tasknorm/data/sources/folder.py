"""Anybody's images: one folder per class, `<class>/<image>`, as a folder or a zip archive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from tasknorm.data.formats.pixels import Resize, antialiased, bilinear
from tasknorm.data.formats.tree import Tree
from tasknorm.data.sources.image_files import ImageFiles
from tasknorm.data.sources.source import own_images, plain_spec, shuffled
from tasknorm.data.spec import SPLITS
from tasknorm.errors import DataError, at, short
from tasknorm.machine import read_json

SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".bmp", ".gif", ".webp", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".avif", ".heic", ".heif"),  # HEIC is refused when it is read: never passed over
)
ClassSplits: TypeAlias = Mapping[str, list[str]]


class Folder(ImageFiles):
    """A tree of images, one folder per class.

    Own photos are read as a viewer shows them, upright, and resized with anti-aliasing; a data set of the papers, told
    by its name (`own_images`), as its protocol does. Files whose names do not end in one of `SUFFIXES` are no images.

    Args:
        path: a folder or zip archive of `<class>/<image>`; folders around all of it are skipped.
        splits: `{"train": [class, ...], "valid": [...], "test": [...]}`, or a JSON file that holds this, or
            holds it by data set name. Without it 70, 15 and 15 % of the classes, in an order that is the same
            everywhere.
        name: the source's name; the path's last part if left out.
        channels: 3 for colour, 1 for grey.
        resize: how images are brought to one size, in place of the above.

    Raises:
        DataError: if there are no such images, or the splits do not name the classes found.
    """

    def __init__(
        self,
        path: Path | str,
        splits: ClassSplits | Path | str | None = None,
        name: str | None = None,
        channels: int = 3,
        resize: Resize | None = None,
    ) -> None:
        self.tree = Tree(path)
        self.origin = str(Path(path).resolve())
        name = name or Path(path).stem
        self.channels, self.upright = channels, own_images(name)
        self.resize = resize or (antialiased if self.upright else bilinear)
        found = files_by_class(self.tree)
        if isinstance(splits, (str, Path)):
            splits = read_splits(Path(splits), name)
        chosen = splits_of(found, splits, str(path))
        self.spec = plain_spec(name, {split: {c: len(found[c]) for c in chosen[split]} for split in SPLITS})
        self._files = [found[class_name] for class_name in self.spec.class_names]


def files_by_class(tree: Tree) -> dict[str, list[str]]:
    """The image files of each class by its folder's name, in alphabetical order; folders around all are skipped.

    Raises:
        DataError: if there are none, or one lies elsewhere than in a class's folder.
    """
    images = [PurePosixPath(name) for name in tree.names if name.lower().endswith(SUFFIXES)]
    outer = _outer_folders(images)
    found: dict[str, list[str]] = {}
    for image in images:
        if len(image.parts) != outer + 2:
            raise DataError(
                f"{at(tree.path)}: images must lie in one folder per class, <class>/<image>, got {short(str(image))}; "
                "move it into its class's folder"
            )
        found.setdefault(image.parts[outer], []).append(str(image))
    if not found:
        raise DataError(
            f"{at(tree.path)}: there are no images in <class>/<image> files, got {len(tree.names)} other files; "
            f"correct the path (images end in {', '.join(SUFFIXES)})"
        )
    return found


def _outer_folders(images: list[PurePosixPath]) -> int:
    """How many folders lie around all classes."""
    outer = 0
    while images and all(len(image.parts) > outer + 2 for image in images):
        if len({image.parts[outer] for image in images}) > 1:
            break
        outer += 1
    return outer


def splits_of(classes: Mapping[str, Any], splits: ClassSplits | None, where: str) -> dict[str, list[str]]:
    """The classes of each split, checked against those found.

    Raises:
        DataError: if a class is named that was not found; classes that no split names are left out.
    """
    if splits is None:
        order, count = shuffled(sorted(classes)), len(classes)
        valid = min(round(0.15 * count), (count - 1) // 2)
        train = count - 2 * valid
        splits = {
            "train": order[:train],
            "valid": order[train : train + valid],
            "test": order[train + valid :],
        }
    unknown = [name for split in SPLITS for name in splits.get(split, []) if name not in classes]
    if unknown:
        raise DataError(
            f"{at(where)}: the splits name the class {short(unknown[0])} ({len(unknown)} such), which is not among the "
            f"{len(classes)} classes found; correct the splits or add its images"
        )
    return {split: sorted(splits.get(split, [])) for split in SPLITS}


def split_names(path: Path) -> list[str]:
    """The data sets that a splits file speaks of; none if it holds one set of splits without a name."""
    content = _content(path)
    return [] if not isinstance(content, dict) or set(content) & set(SPLITS) else sorted(content)


def read_splits(path: Path, name: str) -> ClassSplits | None:
    """The splits of data set `name` in a JSON file; None if the file is about others only.

    Raises:
        DataError: if it is not such a file.
    """
    content = _content(path)
    if isinstance(content, dict) and not set(content) & set(SPLITS):
        if name not in content:
            return None
        content = content[name]
    if not _are_splits(content):
        raise DataError(
            f"{at(path)}: splits must be lists of class names under {', '.join(SPLITS)}, each class in one of them, "
            f"got {short(content)}; correct the file"
        )
    splits: ClassSplits = content
    return splits


def _content(path: Path) -> Any:
    return read_json(path, DataError, "correct the splits file")


def _are_splits(content: object) -> bool:
    if not isinstance(content, dict) or not set(content) <= set(SPLITS):
        return False
    if not all(isinstance(names, list) for names in content.values()):
        return False
    every = [name for names in content.values() for name in names]
    return all(isinstance(name, str) for name in every) and len(set(every)) == len(every)
