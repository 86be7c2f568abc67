"""Files and folders that are whole or absent, and folders that one process at a time writes to.

Something new is written under a temporary name beside its place, then renamed. Its writer holds a lock on it, which
ends with the process however that ends: so what a killed process left behind can be told from what is being written.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from tasknorm.errors import DataError, SettingsError

LOCK = ".lock"
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.part")


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes its name when the block ends without an error; until then an old file stays.

    Safe with several writers of one path: each has its own temporary file, and the last to finish wins.

    Raises:
        OSError: if the file cannot be written, as on a full disk; names it.
    """
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part, file = _new_file(path)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if sys.platform == "win32":  # renames no open file
                    file.close()
                part.replace(path)
            sync(path.parent)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file."""
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """A new folder that takes its name when the block ends without an error; after an error nothing is left.

    Args:
        path: of the folder.
        replace: take the place of a folder of this name, in one step where the system can do that.

    Raises:
        DataError: if the name is taken, and the folder there is not to be replaced.
        OSError: if the folder or a file in it cannot be written, as on a full disk; names it.
    """
    with naming(path):
        if not replace:
            _check_absent(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        part, held = _new_folder(path)
        try:
            yield part
            sync(part)
            if not replace:
                _check_absent(path)
            if replace and os.path.lexists(path):
                _exchange(part, path)
                shutil.rmtree(part)  # by now the old folder
            else:
                part.rename(path)
            sync(path.parent)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        finally:
            if held is not None:
                os.close(held)


def temporary_name(path: Path) -> Path:
    """A name beside `path` that nobody else uses, for something that is not whole yet."""
    return path.with_name(f".{path.name}.{uuid4().hex}.part")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let errors of the system name this path where they name none, as "No space left on device" does not."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error


def sync(path: Path) -> None:
    """Wait until a file is on the disk, or the names in a folder are."""
    if sys.platform == "win32":  # opens no folders
        return
    held = os.open(path, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Have a folder to oneself: it is made if need be, and what killed processes left unfinished in it is removed.

    Raises:
        SettingsError: if another process has it; says which.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as file:
        tries = 5  # another process may hold it for an instant only, to see whether it is free
        while _lock(file.fileno()) is False:
            tries -= 1
            if not tries:
                raise _occupied(folder)
            time.sleep(0.02)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        remove_leftovers(folder)
        yield


def check_free(folder: Path) -> None:
    """Raise at once what `alone` would raise; makes nothing."""
    if not is_free(folder):
        raise _occupied(folder)


def is_free(folder: Path) -> bool:
    """Whether no process has the folder to itself (see `alone`)."""
    try:
        with (folder / LOCK).open() as file:
            return _lock(file.fileno()) is not False
    except FileNotFoundError:
        return True


def _occupied(folder: Path) -> SettingsError:
    who = (folder / LOCK).read_text().strip()
    return SettingsError(
        f"{folder}: another process is writing to this folder ({who or 'it has just begun'}); wait until it has "
        "ended, or choose another folder"
    )


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left unfinished; what a living one is writing stays.

    Args:
        folder: where to look, at any depth.
        name: of the file or folder that was being written, in `folder` itself; of any if left out.
    """
    for path in list(folder.rglob(".*.part") if name is None else folder.iterdir()):
        ours = TEMPORARY.fullmatch(path.name) and (name is None or path.name.startswith(f".{name}."))
        if not ours or path.is_symlink():
            continue
        try:
            held = os.open(path, os.O_RDONLY)
        except OSError:  # gone meanwhile, or another user's
            continue
        try:
            if _lock(held):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        finally:
            os.close(held)


def _new_file(path: Path) -> tuple[Path, BinaryIO]:
    """A new file with a temporary name beside `path`, locked until it is closed."""
    while True:
        part = temporary_name(path)
        file = part.open("xb")
        if _lock(file.fileno()) is not False and part.exists():  # or else it was taken for a leftover just now
            return part, file
        file.close()


def _new_folder(path: Path) -> tuple[Path, int | None]:
    """A new folder with a temporary name beside `path`, and what holds the lock on it until it is closed."""
    while True:
        part = temporary_name(path)
        part.mkdir()
        if sys.platform == "win32":  # opens no folders
            return part, None
        held = os.open(part, os.O_RDONLY)
        if _lock(held) is not False and part.exists():  # or else it was taken for a leftover just now
            return part, held
        os.close(held)


def _lock(held: int) -> bool | None:
    """Lock what a descriptor is of until it is closed; False if another has it, None where nothing can be locked."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems
        return None
    return True


def _exchange(new: Path, old: Path) -> None:
    """Exchange the names of two folders: in one step on Linux, elsewhere in two."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if rename is not None and rename(here, os.fsencode(new), here, os.fsencode(old), exchange) == 0:
        return
    between = temporary_name(old)
    old.rename(between)
    new.rename(old)
    between.rename(new)


def _check_absent(path: Path) -> None:
    if os.path.lexists(path):
        raise DataError(f"{path}: a new folder needs a free name, and this one is taken; remove it or choose another")
