"""Read every image of a source once, and say which ones are bad."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tasknorm.data.sources.source import Source, pieces
from tasknorm.errors import DataError
from tasknorm.machine import in_order
from tasknorm.progress import Progress

PIECE = 64


@dataclass(frozen=True)
class BadImage:
    """An image that cannot be read.

    Args:
        class_id: its class.
        number: its number in the class.
        why: names its file and what is wrong with it.
    """

    class_id: int
    number: int
    why: str


def bad_images(source: Source) -> Iterator[BadImage]:
    """The images that cannot be read, in order, while all of them are decoded; shows how far that is."""
    workers = os.cpu_count() or 1
    parts = list(pieces(source.spec, PIECE))
    work = in_order(lambda part: _bad(source, *part), parts, workers, 4 * workers)
    with Progress("reading", sum(len(numbers) for _, numbers in parts), "images") as progress:
        for (_, numbers), found in zip(parts, work, strict=True):
            progress.add(len(numbers))
            yield from found


def _bad(source: Source, class_id: int, numbers: range) -> list[BadImage]:
    found = []
    for number in numbers:
        try:
            source.image(class_id, number)
        except DataError as error:
            found.append(BadImage(class_id, number, str(error)))
    return found


@contextmanager
def bad_images_can_be_skipped() -> Iterator[None]:
    """Adds to the message of a bad image how to go on without it."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error}; or leave out all images that cannot be read: --skip-bad") from error
