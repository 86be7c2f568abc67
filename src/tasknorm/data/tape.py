"""A tar file read from front to back, with a bound on what its headers make `tarfile` hold in memory."""

from __future__ import annotations

import tarfile
from gzip import GzipFile
from typing import IO

HEADERS = 1 << 20  # bytes between two contents: a header, long names, padding
PADDING = 1 << 26  # bytes of zeros after the last
BLOCK = 512
CHUNK = 1 << 20


class Tape:
    """The file that `tarfile` reads: it moves forwards, and no further than it was allowed to."""

    def __init__(self, file: GzipFile) -> None:
        self._file = file
        self._left = HEADERS
        self._last = b""

    def next_entry(self, opened: tarfile.TarFile) -> tarfile.TarInfo | None:
        """The next header; those before it are forgotten."""
        self._left = HEADERS
        opened.members.clear()  # type: ignore[attr-defined]
        return opened.next()

    def content(self, opened: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes] | None:
        """The content of the entry whose header was just read."""
        self._left = info.size
        return opened.extractfile(info)

    def check_end(self) -> None:
        """`tarfile` takes a corrupt header or the end of the file for the end of the archive: check its mark.

        Reading on to the end verifies the checksum of a gzipped file.
        """
        if self._last != bytes(BLOCK):
            raise ValueError(f"no end mark, but something else before byte {self.tell()}")
        for _ in range(PADDING // CHUNK):
            chunk = self._file.read(CHUNK)
            if chunk.strip(b"\0"):
                raise ValueError(f"something after the end mark, before byte {self.tell()}")
            if not chunk:
                return
        raise ValueError(f"more than {PADDING} bytes of padding")

    def read(self, size: int) -> bytes:
        self._spend(size)
        self._last = self._file.read(size)
        return self._last

    def seek(self, position: int) -> int:
        self._spend(position - self.tell())
        return self._file.seek(position)

    def tell(self) -> int:
        return self._file.tell()

    def _spend(self, size: int) -> None:
        if not 0 <= size <= self._left:
            raise ValueError(f"a tar header before byte {self.tell()} leads {size} bytes ahead")
        self._left -= size
