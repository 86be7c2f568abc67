"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009): the test images, all classes for meta-test, as in CNAPs.

Read from the official binary archives or from class folders. The official Python archives are pickles, which
run whatever code they hold, and are refused.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np

from tasknorm.data.formats.pixels import Pixels, lanczos
from tasknorm.data.formats.tree import Tree, stamp
from tasknorm.data.sources.folder import Folder
from tasknorm.data.sources.source import Source, plain_spec
from tasknorm.errors import DataError, at, one_line, reason, short
from tasknorm.machine import open_regular

PIXELS = 3 * 32 * 32
LARGEST = 1 << 28  # bytes of an archive, unzipped; the official ones have 184 million
MOST_MEMBERS = 1000  # the official archives have ten
FILES = {
    "cifar10": ("test_batch.bin", "batches.meta.txt"),
    "cifar100": ("test.bin", "fine_label_names.txt"),
}
PICKLED = {"cifar10": "batches.meta", "cifar100": "meta"}


def cifar10(path: Path | str) -> Source:
    """CIFAR-10's test images: 10 classes of 1000."""
    return _cifar(Path(path), "cifar10")


def cifar100(path: Path | str) -> Source:
    """CIFAR-100's test images: 100 classes of 100."""
    return _cifar(Path(path), "cifar100")


def _cifar(path: Path, name: str) -> Source:
    archives = [path] if path.is_file() else sorted(path.glob("*.tar.gz"))
    if archives and archives[0].name.endswith(".tar.gz"):
        return BinaryCifar(archives[0], name, _tar_files(archives[0], name))
    tree = Tree(path)
    places = {PurePosixPath(file).name: file for file in tree.names}
    _refuse_pickles(path, name, places)
    if all(file in places for file in FILES[name]):
        return BinaryCifar(path, name, {file: tree.read(places[file]) for file in FILES[name]})
    if any(file.endswith(".bin") for file in places):
        raise DataError(
            f"{at(path)}: {name} needs {' and '.join(FILES[name])}, got {one_line(', '.join(sorted(places)[:5]))}; "
            "unpack the whole archive"
        )
    classes = sorted({PurePosixPath(file).parts[-2] for file in tree.names if "/" in file})
    return Folder(path, {"test": classes}, name, resize=lanczos)


class BinaryCifar:
    """The official binary form: records of label bytes and 3 x 32 x 32 pixels.

    Args:
        path: where it comes from.
        name: `cifar10` or `cifar100`.
        files: the contents of the records and of the list of class names.

    Raises:
        DataError: if a record is cut short or has an unknown label.
    """

    channels = 3
    resize = staticmethod(lanczos)

    def __init__(self, path: Path, name: str, files: Mapping[str, bytes]) -> None:
        self.path, self.origin = path, str(path.resolve())
        records, names = (files[file] for file in FILES[name])
        class_names = _class_names(names, at(path, FILES[name][1]))
        length = PIXELS + (1 if name == "cifar10" else 2)  # CIFAR-100: a coarse label, then the fine one
        if not records or len(records) % length:
            raise DataError(
                f"{at(path, FILES[name][0])}: the file must hold whole records of {length} bytes, got {len(records)} "
                f"bytes: the last is cut off at byte {len(records) // length * length}; fetch it again"
            )
        table = np.frombuffer(records, np.uint8).reshape(-1, length)
        labels = table[:, -PIXELS - 1]
        if int(labels.max()) >= len(class_names):
            first = int(np.argmax(labels >= len(class_names)))
            raise DataError(
                f"{at(path, FILES[name][0])}, byte {first * length}: a label must be below {len(class_names)}, the "
                f"number of class names, got {labels[first]}; fetch it again"
            )
        self._images = table[:, -PIXELS:].reshape(-1, 3, 32, 32)
        order = sorted(range(len(class_names)), key=class_names.__getitem__)
        self._rows = [np.flatnonzero(labels == label) for label in order]
        counts = {class_names[label]: len(rows) for label, rows in zip(order, self._rows, strict=True)}
        self.spec = plain_spec(name, {"test": counts})

    def image(self, class_id: int, number: int) -> Pixels:
        image: Pixels = self._images[self._rows[class_id][number]]
        return np.ascontiguousarray(image.transpose(1, 2, 0))

    def where(self, class_id: int, number: int) -> str:
        return f"{self.path}: record {self._rows[class_id][number]}"

    def fingerprint(self) -> str:
        return stamp(self.path)


def _class_names(text: bytes, where: str) -> list[str]:
    try:
        names = text.decode().split()
    except UnicodeDecodeError as error:
        raise DataError(f"{where}, byte {error.start}: class names must be UTF-8 text; fetch it again") from None
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{where}: two classes have the name {short(name)}; fetch it again")
    return names


def _tar_files(path: Path, name: str) -> dict[str, bytes]:
    """The files that are needed, read without unpacking anything."""
    try:
        with _unzipped(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            files = islice((member for member in archive if member.isfile()), MOST_MEMBERS)
            members = {PurePosixPath(member.name).name: member for member in files}
            _refuse_pickles(path, name, members)
            missing = [file for file in FILES[name] if file not in members]
            if missing:
                raise DataError(f"{at(path)}: there is no {missing[0]} inside; fetch the official binary archive")
            return {file: _extracted(archive, members[file]) for file in FILES[name]}
    except DataError:
        raise
    except Exception as error:  # a broken archive makes tarfile raise nearly anything
        raise DataError(f"{at(path)}: not a whole tar archive ({reason(error)}); fetch it again") from error


@contextmanager
def _unzipped(path: Path) -> Iterator[BinaryIO]:
    """An archive, plain or gzipped, that ends with an error after `LARGEST` bytes."""
    with open_regular(path) as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        yield _Bounded(gzip.GzipFile(fileobj=file) if zipped else file)  # type: ignore[arg-type, misc]


class _Bounded(io.RawIOBase):
    """A file that can be read up to `LARGEST`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        self._check(self.tell() + max(size, 0))
        return self._file.read(LARGEST if size < 0 else size)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._check(offset)
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def _check(self, end: int) -> None:
        if end > LARGEST:
            raise ValueError(f"it holds more than {LARGEST:,} bytes")


def _extracted(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()


def _refuse_pickles(path: Path, name: str, files: Mapping[str, object]) -> None:
    if PICKLED[name] in files or any(file.endswith((".pkl", ".pickle")) for file in files):
        number = name.removeprefix("cifar")
        raise DataError(
            f"{at(path)}: the Python form of CIFAR is refused, since its pickles can run any code; fetch "
            f"cifar-{number}-binary.tar.gz instead: `tasknorm data download {name}`"
        )
