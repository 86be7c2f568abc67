"""A source's images at one size, decoded once: a uint8 `.npy` file that all processes map, and a JSON index.

The index names its `.npy` file and is replaced last, in one step: whoever reads it finds the old cache or the
new one, whole, whatever happened while it was made. It also holds a checksum of each MiB of images: some are verified
whenever the cache is opened, all by `tasknorm data check`.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from tasknorm.data.check import bad_images_can_be_skipped
from tasknorm.data.formats.blocks import BLOCK, Checksums, damaged, mapped
from tasknorm.data.formats.pixels import RESIZES, Pixels, Resize, ResizeName
from tasknorm.data.places import cache_folder
from tasknorm.data.sources.source import Source, checked_image, chosen_resize, images_by_class, pieces
from tasknorm.errors import DataError, at, one_line, reason
from tasknorm.files import atomic_file, write_atomically
from tasknorm.machine import in_order, read_json
from tasknorm.progress import Progress

FORMAT = 3  # 1: own photos without anti-aliasing, 16-bit images as white; 2: without checksums
PIECE = 256  # images that one thread decodes at a time
SAMPLED = 8  # blocks verified when a cache is opened


class Index(BaseModel):
    """What the JSON file beside the images holds."""

    model_config = ConfigDict(strict=True, extra="ignore")

    format: int
    size: int
    fingerprint: str
    spec: str
    images: str
    shape: list[int]
    checksums: list[int]


class Wanted(NamedTuple):
    """What an index must say if its cache is up to date."""

    format: int
    size: int
    fingerprint: str
    spec: str


class Cached:
    """The images of a source at one size, from its cache, which is made first if missing or out of date.

    Args:
        source: where the images come from.
        size: height and width.
        channels: 3 repeats a grey image's channel; the source's own number if left out.
        folder: the folder of caches; the platform's usual one if left out.
        resize: how images are brought to `size`, a name in `RESIZES`; the source's own rule if left out.

    Raises:
        DataError: if an image is bad, or the disk is full; a cache that was there before stays whole.
    """

    def __init__(
        self,
        source: Source,
        size: int,
        channels: int | None = None,
        folder: Path | None = None,
        resize: ResizeName | None = None,
    ) -> None:
        self.spec, self.size = source.spec, size
        self.channels = channels or source.channels
        pixels = _opened(source, size, chosen_resize(source, resize), folder or cache_folder())
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
        raise DataError(f"colour images have 3 channels, got channels={channels}; leave it out")
    return np.repeat(images, channels, axis=1)


def _opened(source: Source, size: int, resize: Resize, folder: Path) -> Pixels:
    if not any(images_by_class(source.spec)):
        raise DataError(f"{one_line(source.spec.name)}: there are no images to cache; check its files")
    wanted = Wanted(FORMAT, size, source.fingerprint(), digest(source.spec))
    index = folder / f"{cache_name(source, f'{size}px', resize)}.json"
    look = secrets.randbits(64)  # the same blocks at each look: what was found damaged stays so
    if (pixels := _whole(index, wanted, look)) is not None:
        return pixels
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(index.with_suffix(".lock")):
            if (pixels := _whole(index, wanted, look)) is None:  # unless another process made it meanwhile
                _write(source, size, resize, index, wanted)
                pixels = _whole(index, wanted, look)
    except OSError as error:
        raise DataError(
            f"{at(folder)}: the cache of {one_line(source.spec.name)} could not be written there ({error}); free "
            "space, or set TASKNORM_CACHE to another folder"
        ) from error
    if pixels is None:
        raise DataError(
            f"{at(index)}: the cache changed while it was being read; is another process writing to it? Run the "
            "command again"
        )
    return pixels


def _whole(index: Path, wanted: Wanted, look: int) -> Pixels | None:
    """The images, if the cache is there, up to date, complete, and has its checksums where `look` has some verified."""
    try:
        found = _read_index(index)
        if (found.format, found.size, found.fingerprint, found.spec) != wanted:
            return None
        with mapped(index.parent / found.images, found.shape, found.checksums) as pixels:
            blocks = range(len(found.checksums))
            chosen = blocks if len(blocks) <= SAMPLED else random.Random(look).sample(blocks, SAMPLED)
            return None if damaged(pixels, found.checksums, chosen) else pixels
    except (OSError, ValueError):
        return None


def _read_index(index: Path) -> Index:
    content = read_json(index, DataError, "remove the file, and the cache is made anew")
    try:
        found = Index.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{at(index)}: {reason(error)}; remove the file, and the cache is made anew") from None
    if Path(found.images).name != found.images or not found.images.endswith(".npy"):
        raise DataError(f"{at(index)}: the images must lie beside it; remove the file, and the cache is made anew")
    return found


def damaged_caches(source: Source, folder: Path | None = None) -> Iterator[str]:
    """What is wrong with the caches of a source, of any size and resizing: every byte is compared with its checksum.

    Args:
        source: whose caches.
        folder: the folder of caches; the platform's usual one if left out.
    """
    for index in sorted(
        {index for resize in (source.resize, *RESIZES.values()) for index in _indices(source, resize, folder)}
    ):
        try:
            found = _read_index(index)
            with mapped(index.parent / found.images, found.shape, found.checksums) as pixels:
                bad = damaged(pixels, found.checksums, range(len(found.checksums)))
        except DataError as error:
            yield str(error)
        except (OSError, ValueError) as error:
            yield f"{at(index)}: the cached images cannot be read ({reason(error)}); remove it, and they are made anew"
        else:
            for block in bad[:1]:
                where = at(index.parent / found.images, f"image data from byte {block * BLOCK}")
                yield (
                    f"{where}: the checksum is wrong ({len(bad)} MiB are damaged); remove {at(index)}, and the cache "
                    "is made anew"
                )


def _indices(source: Source, resize: Resize, folder: Path | None) -> list[Path]:
    """The index of each size at which a source's images, resized like this, are cached."""
    name, place = cache_name(source, "*px", resize).rsplit("*", 1)
    return list((folder or cache_folder()).glob(f"{name}[0-9]*{place}.json"))


def _write(source: Source, size: int, resize: Resize, index: Path, wanted: Wanted) -> None:
    """Images first, then the index that names them; what either replaces is removed last."""
    outdated = [*index.parent.glob(f"{index.stem}.*.npy"), *index.parent.glob(f".{index.stem}.*.part")]
    images = index.with_name(f"{index.stem}.{uuid4().hex[:12]}.npy")
    try:
        with atomic_file(images) as file:
            shape, checksums = _fill(file, source, size, resize)
        content = wanted._asdict() | {"images": images.name, "shape": list(shape)}
        content |= {"classes": source.spec.class_names, "checksums": checksums}
        write_atomically(index, json.dumps(content).encode())
    except BaseException:
        images.unlink(missing_ok=True)
        raise
    for path in outdated:
        path.unlink(missing_ok=True)


def _fill(file: BinaryIO, source: Source, size: int, resize: Resize) -> tuple[tuple[int, ...], list[int]]:
    """Write every image as `.npy`; not through a map, so that a full disk is an error and no signal.

    Returns:
        The array's shape, and the checksum of each block.
    """
    shape = (sum(images_by_class(source.spec)), source.channels, size, size)
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    workers = os.cpu_count() or 1
    parts = pieces(source.spec, PIECE)
    checksums = Checksums()
    with Progress(f"preparing {one_line(source.spec.name)}", shape[0], "images") as progress:
        for images in in_order(lambda part: _decoded(source, part, size, resize), parts, workers, 2 * workers):
            content = images.tobytes()
            file.write(content)
            checksums.add(content)
            progress.add(len(images))
    return shape, checksums.all()


def _decoded(source: Source, part: tuple[int, range], size: int, resize: Resize) -> Pixels:
    """`(images, channels, size, size)`."""
    class_id, numbers = part
    with bad_images_can_be_skipped():
        images = [resize(checked_image(source, class_id, number), size) for number in numbers]
    return np.stack(images).transpose(0, 3, 1, 2)


def cache_name(source: Source, what: str, resize: Resize | None = None) -> str:
    """The name of a file about a source; sources of one name are told apart by their place and how they are read.

    Args:
        source: whose file.
        what: what the file holds.
        resize: how images are brought to one size; the source's own rule if left out.
    """
    name = re.sub(r"[^\w-]", "_", source.spec.name)  # a stranger's spec may name anything
    place = digest((source.origin, source.channels, (resize or source.resize).__name__))[:12]
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
