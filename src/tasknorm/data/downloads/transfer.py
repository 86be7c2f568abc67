"""One file on its way from a server: what has arrived, and how to ask for the rest (RFC 9110, section 14)."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from tasknorm.errors import DataError

CHUNK = 1 << 18
TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)


class Transfer:
    """A partial file and the server that has the whole one.

    Args:
        url: the address.
        file: the partial file, open for appending.
        part: its path; beside it, `<part>.tag` keeps the server's name for this version of the file.
        size: bytes of the whole file, if known.
        timeout: seconds without an answer.
        verified: a checksum will tell whether old and new bytes belong together.
    """

    def __init__(self, url: str, file: FileIO, part: Path, size: int | None, timeout: float, verified: bool) -> None:
        self.url = url
        self.size = size
        self.position = file.seek(0, 2)
        self.report: Callable[[int, int | None], object] = lambda done, total: None
        self._file = file
        self._part = part
        self._tag_path = part.with_name(f"{part.name}.tag")
        self._timeout = timeout
        self._tag = self._tag_path.read_text() if self._tag_path.exists() else ""
        if not self._tag and not verified:
            self._restart()

    def attempt(self) -> None:
        """Ask for what is missing and append it.

        Raises:
            OSError, HTTPException: if the connection broke; another attempt may go on from `position`.
            DataError: if another attempt is pointless.
        """
        try:
            response = urllib.request.build_opener().open(self._request(), timeout=self._timeout)
        except urllib.error.HTTPError as error:
            with error:
                return self._refused(error)
        with response:
            total = self._begin(response)
            self.report(self.position, total)
            while chunk := response.read(CHUNK):
                self._append(chunk)
                self.report(self.position, total)
        if total is not None and self.position < total:
            raise ConnectionError(f"the connection closed before byte {total}")
        return None

    def forget(self) -> None:
        """Remove the partial file and its tag."""
        self._part.unlink(missing_ok=True)
        self._tag_path.unlink(missing_ok=True)

    def _request(self) -> urllib.request.Request:
        headers = {"User-Agent": "tasknorm"}
        if self.position:
            headers["Range"] = f"bytes={self.position}-"
            if self._tag:
                headers["If-Range"] = self._tag
        return urllib.request.Request(self.url, headers=headers)

    def _refused(self, error: urllib.error.HTTPError) -> None:
        """An answer without the file: done, worth another attempt, or the end."""
        if error.code == 416:  # nothing is left after `position`
            if error.headers.get("Content-Range") == f"bytes */{self.position}":
                return
            self._restart()
            raise ConnectionError("the server has fewer bytes than have arrived")
        if error.code in TRY_AGAIN:
            raise ConnectionError(f"the server answered {error.code} {error.reason}")
        raise DataError(
            f"{self.url}: the server answered {error.code} {error.reason}; see whether the file has moved, then fetch "
            "it by hand and import it"
        )

    def _begin(self, response: http.client.HTTPResponse) -> int | None:
        """Prepare for the answer; returns the bytes of the whole file, if the server tells."""
        if response.status == 206:
            total = self._resumed(response.headers.get("Content-Range", ""))
        else:
            self._restart()
            self._remember(response)
            total = response.length
        if response.headers.get_content_type() == "text/html":
            raise DataError(f"{self.url}: the server sent a web page, not the file; fetch it by hand")
        if self.size is not None and total is not None and total != self.size:
            raise DataError(
                f"{self.url}: the file must have {self.size} bytes, the server announces {total}: it has another file; "
                "fetch it elsewhere"
            )
        return total if total is not None else self.size

    def _resumed(self, content_range: str) -> int | None:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", content_range)
        if not match or int(match[1]) != self.position:
            self._restart()
            raise ConnectionError(f"the server resumed elsewhere: {content_range!r}")
        return None if match[2] == "*" else int(match[2])

    def _remember(self, response: http.client.HTTPResponse) -> None:
        tag = response.headers.get("ETag", "")
        self._tag = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")
        self._tag_path.write_text(self._tag)

    def _restart(self) -> None:
        self._file.truncate(0)
        self.position = 0
        self._tag = ""

    def _append(self, chunk: bytes) -> None:
        try:
            while chunk:  # a nearly full disk takes a part of it
                written = self._file.write(chunk)
                self.position += written
                chunk = chunk[written:]
        except OSError as error:
            raise DataError(
                f"{self._part}: the file cannot be written ({error}); free space and run it again"
            ) from error
        if self.size is not None and self.position > self.size:
            raise DataError(
                f"{self.url}: the file must have {self.size} bytes, and the server sent more; fetch it elsewhere"
            )
