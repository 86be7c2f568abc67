"""A source without its bad images: found by decoding all of them once, and remembered beside the caches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import PIL

from tasknorm.data.cache import cache_name, digest, locked
from tasknorm.data.check import BadImage, bad_images
from tasknorm.data.enough_images import large_enough
from tasknorm.data.formats.pixels import Pixels
from tasknorm.data.places import cache_folder
from tasknorm.data.sources.source import BulkSource, Source, images_by_class
from tasknorm.data.spec import Spec
from tasknorm.errors import DataError, at, one_line
from tasknorm.files import write_atomically
from tasknorm.machine import read_json

FORMAT = 2  # 1: without a checksum


class Usable:
    """A source without some of its images; classes keep their ids, and those with no image left are in no split.

    Args:
        source: the source with all its images.
        bad: the images to leave out.
    """

    def __init__(self, source: Source, bad: Sequence[BadImage]) -> None:
        self.source, self.bad = source, tuple(bad)
        self.origin, self.channels, self.resize = source.origin, source.channels, source.resize
        left_out = {(each.class_id, each.number) for each in bad}
        self._numbers = [
            [number for number in range(count) if (class_id, number) not in left_out]
            for class_id, count in enumerate(images_by_class(source.spec))
        ]
        self.spec = _counted(source.spec, [len(numbers) for numbers in self._numbers])

    def image(self, class_id: int, number: int) -> Pixels:
        return self.source.image(class_id, self._numbers[class_id][number])

    def images(self, class_id: int, numbers: Sequence[int]) -> list[Pixels]:
        chosen = [self._numbers[class_id][number] for number in numbers]
        if isinstance(self.source, BulkSource):
            return self.source.images(class_id, chosen)
        return [self.source.image(class_id, number) for number in chosen]

    def where(self, class_id: int, number: int) -> str:
        return self.source.where(class_id, self._numbers[class_id][number])

    def fingerprint(self) -> str:
        numbers = json.dumps([(each.class_id, each.number) for each in self.bad])
        return f"{self.source.fingerprint()} without {hashlib.sha256(numbers.encode()).hexdigest()}"


def usable(source: Source, folder: Path | None = None) -> Usable:
    """The source without the images that do not decode.

    All images are decoded the first time; what was found is kept until the source changes.

    Args:
        source: the source with all its images.
        folder: the folder of caches; the platform's usual one if left out.

    Raises:
        DataError: if the disk is full.
    """
    folder = folder or cache_folder()
    wanted = {
        "format": FORMAT,
        "pillow": PIL.__version__,
        "fingerprint": source.fingerprint(),
        "spec": digest(source.spec),
    }
    index = folder / f"{cache_name(source, 'bad')}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(index.with_suffix(".lock")):
            if (bad := _recorded(index, wanted, images_by_class(source.spec))) is None:
                bad = list(bad_images(source))
                rows = [asdict(each) for each in bad]
                content = {**wanted, "bad": rows, "sha256": digest(rows)}
                write_atomically(index, json.dumps(content).encode())
    except OSError as error:
        raise DataError(
            f"{at(folder)}: the bad images of {one_line(source.spec.name)} could not be listed there ({error}); free "
            "space, or set TASKNORM_CACHE to another folder"
        ) from error
    return Usable(source, bad)


def _recorded(index: Path, wanted: dict[str, Any], counts: Sequence[int]) -> list[BadImage] | None:
    """The bad images that were found before, if the source is the same and the list is whole."""
    try:
        found = read_json(index, DataError, "it is made anew")
        if not isinstance(found, dict) or {key: found.get(key) for key in wanted} != wanted:
            return None
        if found.get("sha256") != digest(found.get("bad")):
            return None
        bad = [BadImage(**each) for each in found["bad"]]
    except (ValueError, KeyError, TypeError):
        return None
    inside = all(0 <= each.class_id < len(counts) and 0 <= each.number < counts[each.class_id] for each in bad)
    return bad if inside else None


def _counted(spec: Spec, counts: Sequence[int]) -> Spec:
    splits = {
        name: large_enough(replace(split, images=tuple(counts[class_id] for class_id in split.classes)), 1)
        for name, split in spec.splits.items()
    }
    return Spec(spec.name, spec.class_names, splits)
