"""What a run leaves out of its sources: told to its user, and kept in its folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tasknorm.data.enough_images import small_classes, some
from tasknorm.data.sources.source import Source
from tasknorm.data.spec import Spec
from tasknorm.data.usable import Usable
from tasknorm.errors import DataError
from tasknorm.files import write_atomically


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
    """The classes of a split with too few images for tasks of so many context and target images a class."""
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
    if not path.exists():
        write_atomically(path, (json.dumps([asdict(row) for row in rows], indent=1) + "\n").encode())
        return
    try:
        before = {(row["source"], row["class_name"], row["image"]) for row in json.loads(path.read_text())}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: the list of what the run leaves out is damaged ({error}); restore it") from error
    changed = before ^ {(row.source, row.class_name, row.image) for row in rows}
    if changed:
        source, class_name, image = min(changed, key=str)
        what = f"class {class_name!r}" if image is None else f"image {image} of class {class_name!r}"
        raise DataError(
            f"{path}: a run goes on with the images that it began with, but {what} of {source} "
            f"{'was' if (source, class_name, image) in before else 'was not'} left out then ({len(changed)} such "
            "changes); restore the images, or begin a new run in another folder"
        )
