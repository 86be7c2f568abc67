"""What a run leaves out of its sources: told to its user, and kept in its folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasknorm.data.enough_images import small_classes, some
from tasknorm.data.sources.source import Source
from tasknorm.data.spec import Spec
from tasknorm.data.usable import Usable
from tasknorm.errors import DataError, at, one_line, short
from tasknorm.files import write_atomically
from tasknorm.machine import read_json


@dataclass(frozen=True)
class LeftOut:
    """An image, or a class, that a run does without.

    Args:
        source: as the run calls it.
        class_name: the class.
        image: its number in the class; None for a whole class.
        why: names the file or class and what is wrong with it.
    """

    source: str
    class_name: str
    image: int | None
    why: str


def left_out_images(name: str, source: Source) -> list[LeftOut]:
    """The bad images of a source that is called `name`."""
    bad = source.bad if isinstance(source, Usable) else ()
    return [LeftOut(name, source.spec.class_names[each.class_id], each.number, each.why) for each in bad]


def left_out_classes(name: str, spec: Spec, split: str, shot: int, targets: int) -> list[LeftOut]:
    """The classes of a split with fewer than `shot + targets` images, which a task needs."""
    small = small_classes(spec, split, shot, targets)
    return [LeftOut(name, spec.class_names[class_id], None, why) for class_id, why in small.items()]


def tell_left_out(rows: Sequence[LeftOut]) -> None:
    """List what is left out on standard error."""
    classes = sum(row.image is None for row in rows)
    print(f"left out: {some(len(rows) - classes, 'image')} and {some(classes, 'class')}", file=sys.stderr)
    for row in rows:
        print(f"left out: {row.why}", file=sys.stderr)


def keep_left_out(rows: Sequence[LeftOut], path: Path) -> None:
    """Write what is left out to a file of a run, or see that it is still the same when the run goes on.

    Raises:
        DataError: if it was something else when the run began: its tasks would become others.
    """
    if not os.path.lexists(path):
        write_atomically(path, (json.dumps([asdict(row) for row in rows], indent=1) + "\n").encode())
        return
    content = read_json(path, DataError, "restore the list of what the run leaves out")
    if not isinstance(content, list):
        raise DataError(f"{at(path)}: this must be a list of what the run leaves out, got {short(content)}; restore it")
    before = {_kept(row, at(path, f"entry {number}")) for number, row in enumerate(content)}
    changed = before ^ {(row.source, row.class_name, row.image) for row in rows}
    if changed:
        source, class_name, image = min(changed, key=str)
        what = f"class {short(class_name)}" if image is None else f"image {image} of class {short(class_name)}"
        raise DataError(
            f"{at(path)}: the run began with other images: {what} of {one_line(source)} "
            f"{'was' if (source, class_name, image) in before else 'was not'} left out then ({len(changed)} such "
            "changes); restore the images, or begin a new run in another folder"
        )


def _kept(row: Any, where: str) -> tuple[str, str, int | None]:
    """Source, class and image of a row as JSON has it; not by pydantic, which refuses names that are no UTF-8."""
    kinds: dict[str, tuple[type, ...]] = {
        "source": (str,),
        "class_name": (str,),
        "image": (int, type(None)),
        "why": (str,),
    }
    if not isinstance(row, dict) or not all(isinstance(row.get(name, ...), kind) for name, kind in kinds.items()):
        raise DataError(f"{where}: this is not something left out ({', '.join(kinds)}), got {short(row)}; restore it")
    return row["source"], row["class_name"], row["image"]
