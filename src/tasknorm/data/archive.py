"""Archives that are not trusted: zip and tar.gz are unpacked into a new folder, or refused whole."""

from __future__ import annotations

import gzip
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, TypeAlias

from tasknorm.data.atomic import atomic_folder
from tasknorm.data.errors import DataError
from tasknorm.data.tape import Tape

CHUNK = 1 << 20
MOST_EXPANSION = 100  # times the archive's size, plus SPARE
SPARE = 1 << 26
BROKEN = (
    *(OSError, EOFError, RuntimeError, ValueError, zlib.error, struct.error),
    *(zipfile.BadZipFile, tarfile.TarError),
)

Entry: TypeAlias = tuple[str, IO[bytes] | None, int]  # name, content (None: a folder), size as stated


def unpack(archive: Path | str, folder: Path | str) -> None:
    """Unpack a zip or tar.gz into a new folder; after an error nothing is left of it.

    Raises:
        DataError: if the folder exists; if the archive is truncated or corrupt; if an entry's path leads
            outside, is a link or a device; if it expands to more than 100 times its size and 64 MiB.
    """
    archive, folder = Path(archive), Path(folder)
    try:
        with atomic_folder(folder) as part:
            _fill(part, archive)
    except DataError:
        raise
    except BROKEN as error:
        raise DataError(f"{archive}: cannot be unpacked ({error}); download it again, or free some space") from error


def _fill(folder: Path, archive: Path) -> None:
    allowance = MOST_EXPANSION * archive.stat().st_size + SPARE
    for name, content, size in _entries(archive):
        if size > allowance:
            raise _absurd(archive)
        path = folder / _inner_path(archive, name)
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            allowance -= _copy(content, path, size)


def _copy(content: IO[bytes], path: Path, size: int) -> int:
    """Write a file of at most `size` bytes; what an archive states may be wrong."""
    written = 0
    with path.open("xb") as file:
        while chunk := content.read(min(CHUNK, size + 1 - written)):
            written += file.write(chunk)
            if written > size:
                raise ValueError(f"{path.name!r} is longer than stated")
    if written < size:
        raise ValueError(f"{path.name!r} is shorter than stated")
    return size


def _entries(archive: Path) -> Iterator[Entry]:
    with archive.open("rb") as file:
        start = file.read(4)
    if start[:2] == b"\x1f\x8b":
        return _tar_entries(archive)
    if start in (b"PK\x03\x04", b"PK\x05\x06"):
        return _zip_entries(archive)
    raise DataError(f"{archive}: an archive is a zip or a tar.gz, this starts with {start!r}; download it again")


def _zip_entries(archive: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _no_file(archive, info.filename)
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(f"{archive}: {info.filename!r} is neither stored nor deflated; pack it again")
            if info.is_dir():
                yield info.filename, None, 0
            else:
                with opened.open(info) as content:
                    yield info.filename, content, info.file_size


def _tar_entries(archive: Path) -> Iterator[Entry]:
    with gzip.open(archive, "rb") as file:
        tape = Tape(file)
        with tarfile.open(fileobj=tape, mode="r:") as opened:  # type: ignore[call-overload]
            while info := tape.next_entry(opened):
                if info.isdir():
                    yield info.name, None, 0
                elif info.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
                    yield info.name, tape.content(opened, info), info.size
                else:
                    raise _no_file(archive, info.name)
        tape.check_end()


def _inner_path(archive: Path, name: str) -> PurePosixPath:
    """An entry's path, which stays inside the folder on any system."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or name[1:2] == ":" or "\0" in name:
        raise DataError(f"{archive}: an entry's path stays inside its folder, got {name!r}; do not trust this archive")
    return path


def _absurd(archive: Path) -> DataError:
    return DataError(
        f"{archive}: an archive expands to at most {MOST_EXPANSION} times its {archive.stat().st_size} bytes "
        f"and {SPARE} more, this one goes beyond; do not trust it"
    )


def _no_file(archive: Path, name: str) -> DataError:
    return DataError(f"{archive}: an entry is a file or a folder, {name!r} is neither; do not trust this archive")
