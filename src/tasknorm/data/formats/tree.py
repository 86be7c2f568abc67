"""The files below a folder or inside a zip archive, read the same way and never unpacked.

An archive is a stranger's file: paths that leave it and contents that expand absurdly are refused when it is
opened.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from tasknorm.errors import DataError

UNREADABLE = (OSError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
MAX_MEMBER = 1 << 30
MAX_EXPANSION = 100
SMALL = 64 << 20  # an archive that expands to less than this may expand by any factor


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
        if self.path.is_dir():
            self.names = _names_below(self.path)
        elif self.path.is_file():
            self.names = self._members()
        else:
            raise DataError(f"{self.path}: a source is a folder or a zip archive, got no such file; correct the path")

    def __repr__(self) -> str:
        return f"Tree({str(self.path)!r}, files={len(self.names)})"

    def where(self, name: str) -> str:
        """How messages call this file, on one line: what does not print is escaped."""
        full = str(self.path / name) if self.path.is_dir() else f"{self.path}:{name}"
        return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in full)

    def read(self, name: str) -> bytes:
        """The bytes of one file.

        Raises:
            DataError: if it cannot be read, or the archive is corrupt there; names the file and its byte
                offset.
        """
        try:
            if self.path.is_dir():
                return _content(self.path / name)
            return self._archive().read(name)
        except UNREADABLE as error:
            raise self._unreadable(name, error) from error

    def size(self, name: str) -> int:
        """How many bytes a file has."""
        if self.path.is_dir():
            return (self.path / name).stat().st_size
        return self._archive().getinfo(name).file_size

    def start(self, name: str, size: int) -> bytes:
        """The first bytes of a file.

        Raises:
            DataError: as `read`.
        """
        try:
            with (self.path / name).open("rb") if self.path.is_dir() else self._archive().open(name) as file:
                return file.read(size)
        except UNREADABLE as error:
            raise self._unreadable(name, error) from error

    def fingerprint(self) -> str:
        """Changes when a file is added, removed, resized or modified."""
        if self.path.is_dir():
            lines = [f"{name} {_stamp_or_none(self.path / name)}" for name in self.names]
        else:
            lines = [stamp(self.path)]
        return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()

    def _archive(self) -> zipfile.ZipFile:
        if os.getpid() not in self._archives:
            self._archives[os.getpid()] = zipfile.ZipFile(self.path)
        return self._archives[os.getpid()]

    def _members(self) -> list[str]:
        try:
            members = [member for member in self._archive().infolist() if not member.is_dir()]
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise DataError(
                f"{self.path}: an archive is a whole zip file, got {self.path.stat().st_size} bytes that are "
                f"none ({error}); fetch it again"
            ) from error
        check_members(self.path, members)
        return sorted(member.filename for member in members if _visible(member.filename))

    def _unreadable(self, name: str, error: Exception) -> DataError:
        members = {} if self.path.is_dir() else self._archive().NameToInfo
        offset = f" at byte {members[name].header_offset}" if name in members else ""
        return DataError(f"{self.where(name)}{offset}: this file cannot be read ({error}); fetch it again")


def check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuse an archive whose members leave it or expand absurdly.

    Raises:
        DataError: names the archive and the member.
    """
    for member in members:
        parts = PurePosixPath(member.filename.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or ":" in member.filename.split("/")[0]:
            raise DataError(
                f"{path}: a member stays inside its archive, got {member.filename!r}; do not use this archive"
            )
        if member.file_size > MAX_MEMBER:
            raise DataError(
                f"{path}: a member holds at most {MAX_MEMBER:,} bytes, {member.filename!r} claims "
                f"{member.file_size:,}; do not use this archive"
            )
    expanded = sum(member.file_size for member in members)
    if expanded > max(SMALL, MAX_EXPANSION * path.stat().st_size):
        raise DataError(
            f"{path}: an archive expands to at most {MAX_EXPANSION} times its size, this one of "
            f"{path.stat().st_size:,} bytes to {expanded:,}; do not use it"
        )


def _names_below(root: Path) -> list[str]:
    found = []
    for folder, _, files in os.walk(root):
        base = Path(folder).relative_to(root)
        found += [(base / file).as_posix() for file in files]
    return sorted(name for name in found if _visible(name))


def _visible(name: str) -> bool:
    return not any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)


def _content(path: Path) -> bytes:
    """A file's bytes; a pipe or a device, which may never end, is none, nor is a link to nothing."""
    if not path.is_file():
        raise OSError("a link to nothing" if path.is_symlink() and not path.exists() else "not a regular file")
    return path.read_bytes()


def _stamp_or_none(path: Path) -> str:
    try:
        return stamp(path)
    except OSError:
        return "unreadable"  # a link to nothing, say: an error when it is read


def stamp(path: Path) -> str:
    """Changes when a file is replaced or modified: its size and time."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"
