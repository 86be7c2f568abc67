"""Bring a data set into the data folder: as it is, or written as Meta-Dataset's records."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from tasknorm.data.check import bad_images_can_be_skipped
from tasknorm.data.formats.dataset_spec import FILE_NAME
from tasknorm.data.formats.tfrecords import write_records
from tasknorm.data.left_out import left_out_images, tell_left_out
from tasknorm.data.places import place_of
from tasknorm.data.sources.folder import ClassSplits, Folder, read_splits
from tasknorm.data.sources.named import SOURCES, SPLITS_FILE, open_at, splits_for
from tasknorm.data.sources.quickdraw import QuickDraw
from tasknorm.data.sources.source import Source, images_by_class
from tasknorm.data.usable import usable
from tasknorm.errors import DataError, at, short
from tasknorm.files import atomic_folder, temporary_name, write_atomically

QUALITY = 95


def import_source(
    path: Path, name: str, root: Path, splits: Path | None = None, records: bool = False, skip_bad: bool = False
) -> Source:
    """Check the data set at `path` and put it into the data folder `root` as `name`.

    Args:
        path: a folder or an archive.
        name: one of `SOURCES`, if it is that data set, or any other for `<class>/<image>` trees.
        root: the data folder.
        splits: which classes are for meta-training, validation and meta-test; a file beside the data set (see
            `splits_for`) if left out.
        records: write it as Meta-Dataset's records instead of copying it.
        skip_bad: leave images that cannot be read out of the records, and list them on standard error.

    Raises:
        DataError: if it cannot be read, or the name is taken; then nothing is left in the data folder.
    """
    if not name.replace("_", "").replace("-", "").isalnum() or name in ("glyphs", "folder", "records"):
        raise DataError(
            f"a name may hold letters, digits, - and _, and not be glyphs, folder or records, got {short(name)}; "
            "choose another"
        )
    if taken := place_of(name, root):
        raise DataError(f"{at(taken)}: the name {name!r} is taken by this data set; remove it or choose another name")
    if skip_bad and not records:
        raise DataError(
            "--skip-bad leaves images out of records, and a copy keeps them; import with --records as well, or pass "
            "--skip-bad when you train"
        )
    chosen = _splits(path, name, splits)
    source = open_at(path, name, path.parent) if chosen is None else _divided(path, name, chosen)
    if records:
        if skip_bad:
            source = usable(source)
            tell_left_out(left_out_images(name, source))
        write_records(root / name, source.spec, _encoded(source))
    else:
        _copy(path, root / (name if path.is_dir() else name + "".join(path.suffixes[-2:])), chosen, name)
    return open_at(place_of(name, root) or root / name, name, root)


def _splits(path: Path, name: str, splits: Path | None) -> ClassSplits | None:
    """The splits in a file, or in one that lies beside the data set; None where it has its own."""
    own = (name in SOURCES and name != "quickdraw") or (path / FILE_NAME).is_file()
    if splits is None:
        found = [(key, file) for key in (name, path.stem) if (file := splits_for(key, path.parent))]
        return read_splits(found[0][1], found[0][0]) if found and not own else None
    if own:
        raise DataError(f"{at(splits)}: {name} has its own splits, got a file of others; leave the file out")
    chosen = read_splits(splits, name)
    if chosen is None:
        raise DataError(f"{at(splits)}: there are no splits of {name!r} in this file; add them, or correct the name")
    return chosen


def _divided(path: Path, name: str, splits: ClassSplits) -> Source:
    return QuickDraw(path, splits) if name == "quickdraw" else Folder(path, splits, name)


def _copy(path: Path, place: Path, splits: ClassSplits | None, name: str) -> None:
    """Copy a data set, and its splits first: without it they do no harm."""
    if path.is_dir():
        _check_links(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    own = place.parent / f"{name}.{SPLITS_FILE}"
    try:
        if splits is not None:
            write_atomically(own, json.dumps(splits, indent=1).encode())
        if path.is_dir():
            with atomic_folder(place) as part:
                shutil.copytree(path, part, dirs_exist_ok=True, ignore=_linked_folders)
        else:
            part = temporary_name(place)
            try:
                shutil.copyfile(path, part)
                part.rename(place)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        own.unlink(missing_ok=True)
        raise DataError(f"{at(place)}: could not be written ({error}); free space, or set TASKNORM_DATA") from error


def _check_links(root: Path) -> None:
    """Refuse what a copy must not take along: files elsewhere that links point to, pipes and devices.

    Raises:
        DataError: names the first such file.
    """
    inside = os.path.realpath(root)
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in (*folders, *files)):
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside):
                raise DataError(
                    f"{at(path)}: this link leads out of the data set, to {at(os.readlink(path))}; put the file itself "
                    "there, or remove the link"
                )
            if not path.is_file() and not path.is_dir():
                what = "a link to nothing" if path.is_symlink() else "a pipe, device or socket"
                raise DataError(f"{at(path)}: this is {what}, and cannot be copied; remove it")


def _linked_folders(folder: str, names: list[str]) -> list[str]:
    """Links to folders, which may lie around each other; what is inside is read at its own place."""
    return [name for name in names if Path(folder, name).is_symlink() and Path(folder, name).is_dir()]


def _encoded(source: Source) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Name and JPEG images of each class, as Meta-Dataset's converters write them."""
    counts = images_by_class(source.spec)
    for class_id in sorted(class_id for split in source.spec.splits.values() for class_id in split.classes):
        numbers = range(counts[class_id])
        yield source.spec.class_names[class_id], (_jpeg(source, class_id, number) for number in numbers)


def _jpeg(source: Source, class_id: int, number: int) -> bytes:
    with bad_images_can_be_skipped():
        pixels = source.image(class_id, number)
    picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    file = io.BytesIO()
    picture.convert("RGB").save(file, "JPEG", quality=QUALITY, subsampling=0)
    return file.getvalue()
