"""Read every image of a source once, and say which ones are bad."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tasknorm.data.sources.source import Source, pieces
from tasknorm.errors import DataError
from tasknorm.machine import in_order

PIECE = 64


def bad_images(source: Source) -> Iterator[str]:
    """A message for each image that cannot be read, in order, while all of them are decoded."""
    workers = os.cpu_count() or 1
    parts = pieces(source.spec, PIECE)
    for messages in in_order(lambda part: _messages(source, *part), parts, workers, 4 * workers):
        yield from messages


def _messages(source: Source, class_id: int, numbers: range) -> list[str]:
    messages = []
    for number in numbers:
        try:
            source.image(class_id, number)
        except DataError as error:
            messages.append(str(error))
    return messages
