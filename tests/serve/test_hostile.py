"""Overload, slow and silent clients, half-sent bodies, and damaged requests: the service stays as it was."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.service import FORM, Reply, Served, context, encoded, form, png, serving

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

ROOT = Path(__file__).parents[2]
TARGET = [("image", "a.png", png(1))]


@pytest.fixture
def served(run_folder: Path, tmp_path: Path) -> Iterator[Served]:
    """A service with little patience and few places."""
    patience = ["--seconds", 4, "--idle-seconds", 1, "--connections", 60, "--queue", 3, "--images", 200]
    with serving(run_folder, tmp_path / "predictors", *patience) as one:
        yield one


def head(path: str, length: int, *lines: str) -> bytes:
    fixed = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {FORM}", f"Content-Length: {length}"]
    return "\r\n".join([*fixed, *lines, "", ""]).encode()


def all_of(connection: socket.socket) -> bytes:
    """What comes until the connection is closed."""
    connection.settimeout(60)
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            found += part
    return found


def test_slow_silent_and_half_gone_clients_are_cut_and_others_served(served: Served) -> None:
    id = served.send("/predictors", context()).json["id"]
    path = f"/predictors/{id}/predict"
    body = form(TARGET)
    silent = [served.connected() for _ in range(20)]
    headless = [served.connected(b"POST /predictors HTTP/1.1\r\nHost: local") for _ in range(10)]
    bodiless = [served.connected(head(path, len(body)) + body[:50]) for _ in range(10)]
    unread = served.connected(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
    served.connected(head(path, len(body)) + body[:50]).close()  # hangs up
    for _ in range(5):
        reply = served.send(path, TARGET)
        assert reply.status == 200, reply  # half-sent bodies take no places
    for connection in silent + headless:
        assert all_of(connection) == b""
        connection.close()
    for connection in bodiless:
        answer = all_of(connection)
        assert answer.startswith(b"HTTP/1.1 503 "), answer
        assert b"Retry-After" in answer or b"retry-after" in answer
        assert b"a request may take 4 s" in answer
        connection.close()
    time.sleep(0.5)
    unread.settimeout(60)
    try:
        while unread.recv(1 << 20):  # what was on its way; then it ends, though not all was asked for
            pass
    except ConnectionResetError:
        pass
    unread.close()
    trickle = served.connected(head(path, len(body)))
    began = time.monotonic()
    with contextlib.suppress(OSError):
        for byte in body:
            trickle.sendall(bytes([byte]))
            time.sleep(0.2)
            if time.monotonic() - began > 30:
                break
    assert time.monotonic() - began < 30  # cut
    trickle.close()
    assert served.metric("tasknorm_body_bytes") == served.metric("tasknorm_requests_inside") == 0
    assert served.send(path, TARGET).status == 200


def test_too_many_connections_are_told_to_come_back(served: Served) -> None:
    held = [served.connected() for _ in range(60)]
    with served.connected() as one:
        answer = all_of(one)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["rule"] == "at most 60 connections are open at a time"
    for connection in held:
        connection.close()
    time.sleep(0.2)
    assert served.ask("GET", "/health").status == 200


def test_what_is_not_http_gets_an_error_in_json(served: Served) -> None:
    for garbage in (
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost\r\n\r\n",
        b"\r\n" * 50 + b"\0",
    ):
        with served.connected(garbage + b"\r\n\r\n") as connection:
            answer = all_of(connection)
        assert answer.startswith(b"HTTP/1.1 400 "), (garbage, answer)
        assert set(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]) == {"rule", "value", "fix"}
    with served.connected(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000) as connection:
        assert all_of(connection).startswith(b"HTTP/1.1 400 ")  # endless headers


def test_overload_turns_some_away_and_serves_the_admitted(served: Served) -> None:
    """Many times more requests at once than there are places: admitted ones succeed, and never wait behind more."""
    id = served.send("/predictors", context()).json["id"]
    path = f"/predictors/{id}/predict"
    alone = served.send(path, TARGET).json["answers"]
    files = [("image", "large.png", encoded(np.full((400, 400), 7, np.uint8)))] * 30 + TARGET
    replies: list[Reply] = []
    inside: list[float] = []
    start = threading.Barrier(41)

    def client() -> None:
        start.wait()
        replies.append(served.send(path, files))

    threads = [threading.Thread(target=client) for _ in range(40)]
    for thread in threads:
        thread.start()
    start.wait()
    while any(thread.is_alive() for thread in threads):
        inside.append(served.metric("tasknorm_requests_inside"))  # and it answers at all
    for thread in threads:
        thread.join()
    statuses = [reply.status for reply in replies]
    assert set(statuses) == {200, 503}, statuses
    assert max(inside) <= 3
    for reply in replies:
        if reply.status == 503:
            assert 1 <= int(reply.headers["retry-after"]) <= 60
            assert "at most 3 requests" in reply.error["rule"]
        else:
            last = reply.json["answers"][-1]["probabilities"]
            assert last == pytest.approx(alone[0]["probabilities"], abs=1e-5)
    assert served.metric("tasknorm_requests_turned_away_total") == statuses.count(503)
    assert served.send(path, TARGET).status == 200  # and all is well again


@pytest.mark.usefixtures("glyph_cache")
def test_damaged_requests_leave_it_alive_and_its_memory_flat() -> None:
    """`benchmarks/serve_fuzz.py` does it with 10,000."""
    command = [sys.executable, ROOT / "benchmarks" / "serve_fuzz.py", "--requests", "500", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert not found["wrong"]
    assert found["answers"]["200"] > 10
    first, *_, last = found["resident_megabytes"]
    assert last <= first + 40
