"""Downloads that resume where they broke off, are verified, and are whole or absent."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from os.path import samestat
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from tasknorm.data.downloads.transfer import Transfer
from tasknorm.errors import DataError

CHUNK = 1 << 20


def download(
    url: str,
    path: Path | str,
    *,
    sha256: str | None = None,
    md5: str | None = None,
    size: int | None = None,
    attempts: int = 5,
    pause: float = 1.0,
    timeout: float = 30.0,
    console: Console | None = None,
) -> str:
    """Fetch a file, unless it is there already; prints its SHA-256 if there is no checksum to verify it by.

    What arrived before an error stays beside it, as `<name>.part`, and the next call goes on from there.

    Args:
        url: http or https.
        path: where to; made only when the file is whole and verified.
        sha256, md5: the file's checksums, if they are known.
        size: its bytes, if they are known.
        attempts: how many in a row may fail without a new byte.
        pause: seconds between the first two attempts; later pauses are longer.
        timeout: seconds without an answer until an attempt fails.
        console: for the progress bar; standard error if not given.

    Returns:
        The file's SHA-256.

    Raises:
        DataError: if the file cannot be fetched or written, or is not the one that was expected.
    """
    path = Path(path)
    console = console or Console(stderr=True)
    if not re.fullmatch(r"https?://[^/\s]+/\S*", url):
        raise DataError(f"an address must be http://host/path or https://host/path, got {url!r}; correct it")
    if path.exists():
        digest = _verify(path, url, sha256, md5, size)
    else:
        part = path.with_name(f"{path.name}.part")
        with _claimed(part) as file:
            transfer = Transfer(url, file, part, size, timeout, verified=bool(sha256 or md5))
            with _bar(console, path.name, transfer):
                _fetch(transfer, attempts, pause)
            try:
                digest = _verify(part, url, sha256, md5, size)
                part.replace(path)
            finally:
                transfer.forget()
    if not sha256 and not md5:
        console.print(f"{path.name}: not verified, since nobody publishes its checksum (SHA-256 {digest})")
    return digest


def _fetch(transfer: Transfer, attempts: int, pause: float) -> None:
    failures = best = 0
    while True:
        try:
            return transfer.attempt()
        except DataError:
            if not transfer.position:
                transfer.forget()
            raise
        except (OSError, http.client.HTTPException) as error:
            failures = 1 if transfer.position > best else failures + 1
            best = max(best, transfer.position)
            if failures >= attempts:
                raise DataError(
                    f"{transfer.url}: the download stopped at byte {transfer.position} ({error}) after {failures} "
                    "failed attempts; run it again later, it goes on from there"
                ) from error
            time.sleep(pause * failures)


@contextmanager
def _claimed(part: Path) -> Iterator[FileIO]:
    """The partial file, open for appending; a second process that wants it gets an error."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("ab", buffering=0)
    except OSError as error:
        raise DataError(f"{part}: the file cannot be written ({error}); choose another folder") from error
    with file:
        if not _locked(file) or not part.exists() or not samestat(os.fstat(file.fileno()), part.stat()):
            raise DataError(f"{part}: another process is downloading this file; wait for it")
        yield file


def _locked(file: FileIO) -> bool:
    """Whether this process has the file for itself now, until it closes it. (Not known on Windows.)"""
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


@contextmanager
def _bar(console: Console, name: str, transfer: Transfer) -> Iterator[None]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(name, total=transfer.size)
        transfer.report = lambda done, total: progress.update(task, completed=done, total=total)
        yield


def _verify(path: Path, url: str, sha256: str | None, md5: str | None, size: int | None) -> str:
    """Check a file's size and checksums; returns the SHA-256."""
    hashes = {"SHA-256": hashlib.sha256(), "MD5": hashlib.md5(usedforsecurity=False)}
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            for algorithm in hashes.values():
                algorithm.update(chunk)
    found = {"size": str(path.stat().st_size)} | {name: h.hexdigest() for name, h in hashes.items()}
    expected = {"size": None if size is None else str(size), "SHA-256": sha256, "MD5": md5}
    for name, value in expected.items():
        if value is not None and found[name] != value.lower():
            raise DataError(
                f"{path}: the {name} must be {value} (the file of {url}), got {found[name]}; remove the file if it is "
                "still there and try again (if it happens again, the server has another file)"
            )
    return found["SHA-256"]
