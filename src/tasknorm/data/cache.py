"""A source's images at one size, decoded once: a uint8 `.npy` file that all processes map, and a JSON index.

The index names its `.npy` file and is replaced last, in one step: whoever reads it finds the old cache or the
new one, whole, whatever happened while it was made.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tasknorm.data.check import bad_images_can_be_skipped
from tasknorm.data.formats.pixels import Pixels
from tasknorm.data.places import cache_folder
from tasknorm.data.sources.source import Source, images_by_class, pieces
from tasknorm.errors import DataError
from tasknorm.files import atomic_file, write_atomically
from tasknorm.machine import in_order

FORMAT = 2  # 1: own photos without anti-aliasing, 16-bit images as white
PIECE = 256  # images that one thread decodes at a time


class Cached:
    """The images of a source at one size, from its cache, which is made first if missing or out of date.

    Args:
        source: where the images come from.
        size: height and width.
        channels: 3 repeats a grey image's channel; the source's own number if left out.
        folder: of caches.

    Raises:
        DataError: if an image is bad, or the disk is full; a cache that was there before stays whole.
    """

    def __init__(self, source: Source, size: int, channels: int | None = None, folder: Path | None = None) -> None:
        self.spec, self.size = source.spec, size
        self.channels = channels or source.channels
        pixels = _opened(source, size, folder or cache_folder())
        self._rows = pixels.reshape(len(pixels), -1)  # (images, channels * size * size)
        self._stored = pixels.shape[1]
        self._starts = np.cumsum([0, *images_by_class(source.spec)])

    def batch(self, classes: NDArray[np.int64], numbers: NDArray[np.int64]) -> Pixels:
        """Images `numbers` of `classes`, uint8 `(images, channels, size, size)`."""
        rows = np.take(self._rows, self._starts[classes] + numbers, axis=0)
        return with_channels(rows.reshape(-1, self._stored, self.size, self.size), self.channels)


def with_channels(images: Pixels, channels: int) -> Pixels:
    """`(images, 1 or channels, height, width)` to `(images, channels, height, width)`.

    Raises:
        DataError: if colour would be lost.
    """
    if images.shape[1] == channels:
        return images
    if images.shape[1] != 1:
        raise DataError(f"colour images keep their 3 channels, got channels={channels}; leave it out")
    return np.repeat(images, channels, axis=1)


def _opened(source: Source, size: int, folder: Path) -> Pixels:
    wanted = {
        "format": FORMAT,
        "size": size,
        "fingerprint": source.fingerprint(),
        "spec": digest(source.spec),
    }
    if not any(images_by_class(source.spec)):
        raise DataError(f"{source.spec.name}: a source to cache has images, got none; check its files")
    index = folder / f"{cache_name(source, f'{size}px')}.json"
    if (pixels := _whole(index, wanted)) is not None:
        return pixels
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(index.with_suffix(".lock")):
            if (pixels := _whole(index, wanted)) is None:  # unless another process made it meanwhile
                _write(source, size, index, wanted)
                pixels = _whole(index, wanted)
    except OSError as error:
        raise DataError(
            f"{folder}: the cache of {source.spec.name} could not be written there ({error}); free space, "
            "or set TASKNORM_CACHE to another folder"
        ) from error
    if pixels is None:
        raise DataError(f"{index}: a cache stays as it was written, got another one; let nothing else write there")
    return pixels


def _whole(index: Path, wanted: dict[str, Any]) -> Pixels | None:
    """The images, if the cache is there, up to date and complete."""
    try:
        found = json.loads(index.read_text())
        if {key: found[key] for key in wanted} != wanted:
            return None
        pixels: Pixels = np.load(index.parent / found["images"], mmap_mode="r")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pixels if list(pixels.shape) == found["shape"] and pixels.dtype == np.uint8 else None


def _write(source: Source, size: int, index: Path, wanted: dict[str, Any]) -> None:
    """Images first, then the index that names them; what either replaces is removed last."""
    outdated = [*index.parent.glob(f"{index.stem}.*.npy"), *index.parent.glob(f".{index.stem}.*.part")]
    images = index.with_name(f"{index.stem}.{uuid4().hex[:12]}.npy")
    try:
        with atomic_file(images) as file:
            shape = _fill(file, source, size)
        content = {**wanted, "images": images.name, "shape": list(shape), "classes": source.spec.class_names}
        write_atomically(index, json.dumps(content).encode())
    except BaseException:
        images.unlink(missing_ok=True)
        raise
    for path in outdated:
        path.unlink(missing_ok=True)


def _fill(file: BinaryIO, source: Source, size: int) -> tuple[int, ...]:
    """Write every image as `.npy`; not through a map, so that a full disk is an error and no signal."""
    shape = (sum(images_by_class(source.spec)), source.channels, size, size)
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    workers = os.cpu_count() or 1
    parts = pieces(source.spec, PIECE)
    for images in in_order(lambda part: _decoded(source, part, size), parts, workers, 2 * workers):
        file.write(images.tobytes())
    return shape


def _decoded(source: Source, part: tuple[int, range], size: int) -> Pixels:
    """`(images, channels, size, size)`."""
    class_id, numbers = part
    with bad_images_can_be_skipped():
        images = [source.resize(source.image(class_id, number), size) for number in numbers]
    return np.stack(images).transpose(0, 3, 1, 2)


def cache_name(source: Source, what: str) -> str:
    """A file's name for `what` is kept of a source; tells those of the same name apart by their place and reading."""
    name = re.sub(r"[^\w-]", "_", source.spec.name)  # a stranger's spec may name anything
    place = digest((source.origin, source.channels, source.resize.__name__))[:12]
    return f"{name}-{what}-{place}"


def digest(value: object) -> str:
    """A short text that tells values apart by their `repr`."""
    return hashlib.sha256(repr(value).encode(errors="surrogateescape")).hexdigest()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time makes a cache; the others wait. (On Windows several do: the last wins.)"""
    with path.open("w") as file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
