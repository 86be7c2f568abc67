"""`tasknorm serve` in a process of its own, and a client for it."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from support.runs import started
from tasknorm.data import Preparation, Prepared

BOUNDARY = "form-boundary"


@dataclass(frozen=True)
class Reply:
    """What the service answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error, which has its three parts and nothing else."""
        assert self.headers["content-type"] == "application/json", self
        error = self.json["error"]
        assert set(self.json) == {"error"}
        assert set(error) == {"rule", "value", "fix"}
        return error


@dataclass
class Served:
    """A running service."""

    process: subprocess.Popen[str]
    port: int

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Reply:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    def send(self, path: str, files: Iterable[tuple[str, str, bytes]], **headers: str) -> Reply:
        """A form of (field, file name, bytes), as `curl -F` sends it."""
        return self.ask("POST", path, form(files), {"Content-Type": FORM, **headers})

    def connected(self, data: bytes = b"") -> socket.socket:
        """A connection on which these bytes were sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(data)
        return connection

    def metric(self, name: str) -> float:
        """A number of /metrics."""
        lines = self.ask("GET", "/metrics").body.decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))

    def stop(self, how: int = signal.SIGTERM) -> tuple[int, str]:
        """End the process by a signal: exit code and what it wrote to standard error."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        _, error = self.process.communicate(timeout=60)
        return self.process.returncode, error


FORM = f"multipart/form-data; boundary={BOUNDARY}"


def form(files: Iterable[tuple[str, str, bytes]]) -> bytes:
    """The body of a form."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"; filename="{file}"\r\n'
        f"Content-Type: image/png\r\n\r\n".encode()
        + data
        + b"\r\n"
        for field, file, data in files
    ]
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def png(seed: int, size: int = 28) -> bytes:
    """A grey image of noise with a bright square somewhere."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 120, (size, size), dtype=np.uint8)
    top, left = generator.integers(0, size - 8, 2)
    pixels[top : top + 8, left : left + 8] = 250
    return encoded(pixels)


def encoded(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    """An image file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def pictures(preparation: Preparation, count: int, seed: int) -> Prepared:
    """Images of noise, prepared for a net."""
    return Prepared(preparation.pixels([png(seed + number) for number in range(count)]))


def context(classes: int = 3, shot: int = 2) -> list[tuple[str, str, bytes]]:
    """Files of a context: noise, but noise of its own for each class."""
    return [(f"class {c}", f"{c}-{s}.png", png(100 * c + s)) for c in range(classes) for s in range(shot)]


@contextlib.contextmanager
def serving(run: Path, folder: Path, *words: object, threads: int | None = 1, **variables: str) -> Iterator[Served]:
    """A service on a free port, ended with SIGTERM."""
    process = started("serve", run, "--folder", folder, "--port", 0, *words, threads=threads, **variables)
    assert process.stdout is not None
    line = process.stdout.readline()
    if " at http://" not in line:
        raise AssertionError(process.communicate(timeout=60))
    served = Served(process, int(line.split(" at http://")[1].split()[0].rsplit(":", 1)[1]))
    try:
        yield served
    finally:
        served.stop()
