"""The files below a folder or inside a zip archive, read the same way and never unpacked.

An archive is a stranger's file. Refused when it is opened are paths that leave it, members of more than 256 MiB or
that expand absurdly, and compressions other than deflate, which can fill the memory from a few bytes.
"""

from __future__ import annotations

import hashlib
import os
import weakref
import zipfile
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from tasknorm.errors import DataError, at, reason, short
from tasknorm.machine import open_regular, read_regular

LARGEST = 1 << 28  # bytes of a file; Quick Draw's largest class has 267 million
MAX_EXPANSION = 100
SMALL = 64 << 20  # an archive that expands to less than this may expand by any factor
CHUNK = 1 << 20


class Tree:
    """Files by their path relative to the root, sorted.

    Args:
        path: a folder or a zip archive.

    Raises:
        DataError: if it is neither, or an archive that is broken or dangerous.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._archives: dict[int, zipfile.ZipFile] = {}  # by process, since forks share a file's position
        self._members: dict[str, zipfile.ZipInfo] = {}
        if self.path.is_dir():
            self.names = _names_below(self.path)
        elif self.path.is_file():
            self._members = self._listed()
            self.names = sorted(self._members)
        else:
            raise DataError(f"{at(path)}: there is no folder or zip archive of this name; correct the path")

    def __repr__(self) -> str:
        return f"Tree({str(self.path)!r}, files={len(self.names)})"

    def where(self, name: str) -> str:
        """How messages call this file, on one line: what does not print is escaped."""
        return at(self.path / name if self.path.is_dir() else f"{self.path}:{name}")

    def read(self, name: str) -> bytes:
        """The bytes of one file, at most 256 MiB.

        Raises:
            DataError: if it cannot be read, or the archive is corrupt there; names the file and its byte
                offset.
        """
        try:
            if self.path.is_dir():
                return read_regular(self.path / name, LARGEST)
            with self._open(name) as file:
                return b"".join(iter(lambda: file.read(CHUNK), b""))
        except Exception as error:  # a broken archive makes zipfile raise nearly anything
            raise self._unreadable(name, error) from error

    def size(self, name: str) -> int:
        """How many bytes a file has.

        Raises:
            DataError: as `read`.
        """
        if self._members:
            return self._members[name].file_size
        try:
            return (self.path / name).stat().st_size
        except OSError as error:
            raise self._unreadable(name, error) from error

    def start(self, name: str, size: int) -> bytes:
        """The first bytes of a file.

        Raises:
            DataError: as `read`.
        """
        try:
            with self._open(name) as file:
                return file.read(size)
        except Exception as error:  # as in `read`
            raise self._unreadable(name, error) from error

    def fingerprint(self) -> str:
        """Changes when a file is added, removed, resized or modified."""
        if self.path.is_dir():
            lines = [f"{name} {_stamp_or_none(self.path / name)}" for name in self.names]
        else:
            lines = [stamp(self.path)]
        return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()

    def _open(self, name: str) -> BinaryIO:
        if self.path.is_dir():
            return open_regular(self.path / name)
        return self._archive().open(self._members[name])  # type: ignore[return-value]  # it reads like a file

    def _archive(self) -> zipfile.ZipFile:
        if os.getpid() not in self._archives:
            archive = zipfile.ZipFile(self.path)
            weakref.finalize(self, archive.close)  # before a cycle's parts are ended in any order
            self._archives[os.getpid()] = archive
        return self._archives[os.getpid()]

    def _listed(self) -> dict[str, zipfile.ZipInfo]:
        """The members that are visible files, by their path as folders have it: without `./` and doubled slashes."""
        try:
            members = [member for member in self._archive().infolist() if not member.is_dir()]
        except Exception as error:  # as in `read`
            raise DataError(
                f"{at(self.path)}: not a whole zip archive ({reason(error)}), got "
                f"{self.path.stat().st_size:,} bytes; fetch it again"
            ) from error
        check_members(self.path, members)
        named = {PurePosixPath(member.filename).as_posix(): member for member in members}
        return {name: member for name, member in named.items() if _visible(name)}

    def _unreadable(self, name: str, error: Exception) -> DataError:
        offset = f" at byte {self._members[name].header_offset}" if name in self._members else ""
        return DataError(f"{self.where(name)}{offset}: this file cannot be read ({reason(error)}); fetch it again")


def check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuse an archive whose members leave it, expand absurdly, or are compressed by something else than deflate.

    Raises:
        DataError: names the archive and the member.
    """
    for member in members:
        name = short(member.filename)
        parts = PurePosixPath(member.filename.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or ":" in member.filename.split("/")[0]:
            raise DataError(f"{at(path)}: a member leaves the archive, got {name}; do not use this archive")
        if member.file_size > LARGEST:
            raise DataError(
                f"{at(path)}: a member may hold {LARGEST:,} bytes at most, {name} claims {member.file_size:,}; leave "
                "it out of the archive"
            )
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(
                f"{at(path)}: members must be stored or deflated, {name} is packed by method "
                f"{member.compress_type}; pack the archive again as an ordinary zip"
            )
    expanded, size = sum(member.file_size for member in members), path.stat().st_size
    if expanded > max(SMALL, MAX_EXPANSION * size):
        raise DataError(
            f"{at(path)}: an archive may expand to {MAX_EXPANSION} times its size at most, this one of {size:,} bytes "
            f"expands to {expanded:,}; do not use it"
        )


def _names_below(root: Path) -> list[str]:
    found = []
    for folder, _, files in os.walk(root):
        base = Path(folder).relative_to(root)
        found += [(base / file).as_posix() for file in files]
    return sorted(name for name in found if _visible(name))


def _visible(name: str) -> bool:
    return name != "." and not any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)


def _stamp_or_none(path: Path) -> str:
    try:
        return stamp(path)
    except OSError:
        return "unreadable"  # a link to nothing, say: an error when it is read


def stamp(path: Path) -> str:
    """Changes when a file is replaced or modified: its size and time."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"
