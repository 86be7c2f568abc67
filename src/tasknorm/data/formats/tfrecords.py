"""TFRecord files: read at random through an index of offsets, and written, without TensorFlow.

A record is its length (uint64, little endian), the length's checksum, the payload and the payload's checksum
(TensorFlow, `record_writer.h`). Meta-Dataset keeps one file per class, `<class id>.tfrecords`, beside a
`dataset_spec.json`; each payload is an example with an image and its label, the class id.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tasknorm.data.formats.crc32c import masked_crc32c
from tasknorm.data.formats.dataset_spec import FILE_PATTERN, write_spec
from tasknorm.data.formats.example import decode_example, encode_example
from tasknorm.data.spec import SPLITS, Spec, Split, renumbered
from tasknorm.errors import DataError, at, reason, short
from tasknorm.files import atomic_file, atomic_folder
from tasknorm.machine import open_regular

HEADER = struct.Struct("<QI")
FOOTER = struct.Struct("<I")
SMALL = 1 << 22
LARGEST = 1 << 28  # bytes of a record
FRAME = HEADER.size + FOOTER.size


class RecordFile:
    """One TFRecord file of Meta-Dataset: the images of one class.

    Nothing is read before it is asked for, and no file stays open; so thousands of these may live in many
    processes.

    Args:
        path: the file.

    Raises:
        DataError: on reading, if a record is truncated or corrupt; names the file and the byte offset.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each record starts, in bytes, and at last where the file ends: `(records + 1,)`."""
        return np.array([*_scan(self.path)], np.int64)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def examples(self, numbers: Iterable[int] | None = None) -> Iterator[tuple[bytes, int]]:
        """Encoded image and label of some records, or of all, in the order asked for.

        A record's checksum and form are verified when it is first read; after that its image is read alone.
        """
        with _small_in_memory(self.path) as file:
            for number in range(len(self)) if numbers is None else numbers:
                if not 0 <= number < len(self):
                    raise DataError(
                        f"{at(self.path)}: there are {len(self)} records, and number {number} was asked for (the first "
                        "is 0); the spec contradicts the file, correct one of them"
                    )
                start, length, label = self._verified[number].tolist()
                if start == 0:
                    yield self._verify(file, number)
                else:
                    file.seek(start)
                    yield file.read(length), label

    @cached_property
    def _verified(self) -> NDArray[np.int64]:
        """Of each record: where its image starts, how long it is, and its label; 0 while it is not verified."""
        return np.zeros((len(self), 3), np.int64)

    def _verify(self, file: BinaryIO, number: int) -> tuple[bytes, int]:
        start, end = self.offsets[number : number + 2].tolist()
        payload = _payload(file, self.path, start, end)
        try:
            image, label = decode_example(payload)
        except DataError as error:
            raise DataError(f"{at(self.path, f'record at byte {start}')}: {error}") from error
        self._verified[number] = start + HEADER.size + payload.find(image), len(image), label
        return image, label


def write_record_file(path: Path, images: Iterable[bytes], label: int) -> int:
    """Write a class's encoded images, atomically; returns how many."""
    count = 0
    with atomic_file(path) as file:
        for image in images:
            file.write(frame(encode_example(image, label)))
            count += 1
    return count


def write_records(folder: Path | str, spec: Spec, classes: Iterable[tuple[str, Iterable[bytes]]]) -> Spec:
    """Write a source in Meta-Dataset's format: a file per class and the spec. All of it, or nothing.

    Args:
        folder: the folder to make; it must not exist yet.
        spec: the split of each class, and its alphabet if there are any. Numbers of images are counted anew.
        classes: the name and encoded images of each class of the spec, in any order.

    Returns:
        The spec as written: class ids are contiguous, train first, then valid, then test.

    Raises:
        DataError: if the folder exists, or the classes are not those of the spec.
    """
    spec = renumbered(spec)
    ids = {name: class_id for class_id, name in enumerate(spec.class_names)}
    if len(ids) < len(spec.class_names):
        raise DataError(f"{at(folder)}: two classes of {short(spec.name)} have the same name; rename one")
    counts: dict[int, int] = {}
    with atomic_folder(Path(folder)) as part:
        write_spec(spec, part)  # a spec that cannot be written is found before the long work
        for name, images in classes:
            class_id = ids.get(name, -1)
            if class_id < 0 or class_id in counts:
                raise DataError(
                    f"{at(folder)}: the class {short(name)} is not in the spec, or came twice; correct the names"
                )
            counts[class_id] = write_record_file(part / FILE_PATTERN.format(class_id), images, class_id)
        missing = [name for name, class_id in ids.items() if class_id not in counts]
        if missing:
            raise DataError(f"{at(folder)}: the class {short(missing[0])} of the spec has no images; add them")
        written = Spec(spec.name, spec.class_names, {s: _counted(spec.splits[s], counts) for s in SPLITS})
        write_spec(written, part)
    return written


def frame(payload: bytes) -> bytes:
    """A payload with its length and both checksums around it."""
    length = struct.pack("<Q", len(payload))
    return HEADER.pack(len(payload), masked_crc32c(length)) + payload + FOOTER.pack(masked_crc32c(payload))


def _counted(split: Split, counts: dict[int, int]) -> Split:
    images = tuple(counts[class_id] for class_id in split.classes)
    return Split(split.classes, images, split.groups, split.kind, split.group_names)


def _open(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as error:
        raise DataError(
            f"{at(path)}: the records of a class cannot be read ({reason(error)}); restore the file"
        ) from error


def _small_in_memory(path: Path) -> BinaryIO:
    """A small file is read at once: each system call lets other threads take the interpreter's lock."""
    file = _open(path)
    if file.seek(0, 2) > SMALL:
        return file
    with file:
        file.seek(0)
        return io.BytesIO(file.read())


def _scan(path: Path) -> Iterator[int]:
    """Offset of each record, then the file's size; reads and verifies the headers only."""
    with _open(path) as file:
        size = file.seek(0, 2)
        offset = 0
        while offset < size:
            yield offset
            file.seek(offset)
            header = file.read(HEADER.size)
            if len(header) < HEADER.size:
                raise _truncated(path, offset, size)
            length, checksum = HEADER.unpack(header)
            if masked_crc32c(header[:8]) != checksum:
                raise _corrupt(path, offset, "length")
            if offset + length + FRAME > size:
                raise _truncated(path, offset, size)
            if length > LARGEST:
                raise DataError(
                    f"{at(path, f'record at byte {offset}')}: a record may hold {LARGEST:,} bytes at most, got "
                    f"{length:,}; convert the data set again, with smaller images"
                )
            offset += length + FRAME
        yield size


def _payload(file: BinaryIO, path: Path, start: int, end: int) -> bytes:
    file.seek(start + HEADER.size)
    content = file.read(end - start - HEADER.size)
    if len(content) < end - start - HEADER.size:
        raise _truncated(path, start, start + HEADER.size + len(content))
    payload, (checksum,) = content[: -FOOTER.size], FOOTER.unpack(content[-FOOTER.size :])
    if masked_crc32c(payload) != checksum:
        raise _corrupt(path, start, "content")
    return payload


def _truncated(path: Path, offset: int, size: int) -> DataError:
    return DataError(
        f"{at(path, f'record at byte {offset}')}: the record is cut off by the end of the file at byte {size}; copy or "
        "download the file again"
    )


def _corrupt(path: Path, offset: int, part: str) -> DataError:
    return DataError(
        f"{at(path, f'record at byte {offset}')}: the record's {part} does not have the checksum beside it; copy or "
        "download the file again"
    )
