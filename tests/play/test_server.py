"""The page's server: real HTTP, right answers, and nobody else served."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
from typing import Any

import numpy as np
import pytest
import torch

from support.glyph_tasks import episode
from tasknorm import Episode
from tasknorm.errors import SettingsError
from tasknorm.play import Playable, Server, embedded_learner
from tasknorm.play.server import LARGEST_BODY


def asked(server: Server, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


def encoded(images: torch.Tensor) -> str:
    return base64.b64encode((images * 255).round().to(torch.uint8).numpy().tobytes()).decode()


def question(task: Episode, **changes: Any) -> dict[str, Any]:
    context, targets = encoded(task.context_x), encoded(task.target_x)
    labels = task.context_y.tolist()
    return {"norm": "TaskNorm-I", "way": 5, "labels": labels, "context": context, "targets": targets} | changes


def learned(server: Server, body: Any, **headers: str) -> tuple[int, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, _, found = asked(server, "POST", "/learn", content, **({"Content_Type": "application/json"} | headers))
    return status, json.loads(found)


@pytest.mark.parametrize("label", ["TaskNorm-I", "TBN", "CBN"])
def test_it_answers_as_the_learner(server: Server, label: str) -> None:
    task = episode(4)
    status, found = learned(server, question(task, norm=label, moments=True))
    assert status == 200
    with torch.no_grad():
        expected = embedded_learner(label)(task)
    torch.testing.assert_close(torch.tensor(found["logits"]), expected, rtol=1e-3, atol=1e-3)
    rows = len(task.context_y) + len(task.target_y)
    assert [len(table) for table in found["moments"]] == [2 * rows * 32] * 4
    assert learned(server, question(task, norm=label))[1]["moments"] is None


def test_the_page_and_its_files(server: Server) -> None:
    status, headers, page = asked(server, "GET", "/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"default-src 'none'; script-src 'self'" in page
    assert headers["X-Frame-Options"] == "DENY"
    for name, kind in (("main.js", "text/javascript"), ("style.css", "text/css"), ("models.json", "application/json")):
        status, headers, content = asked(server, "GET", f"/{name}")
        assert status == 200
        assert headers["Content-Type"].startswith(kind)
        assert content
    assert asked(server, "HEAD", "/")[::2] == (200, b"")


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/..%2f..%2fetc/passwd", "//etc/passwd", "/weights", "/learn", "/é"]
)
def test_nothing_else_is_served(server: Server, path: str) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port)) as raw:
        raw.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\nConnection: close\r\n\r\n".encode()
        )
        assert raw.makefile("rb").readline().split()[1] == b"404"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
    ],
)
def test_another_site_cannot_ask(server: Server, headers: dict[str, str]) -> None:
    given = {name: value.format(port=server.server_port) for name, value in headers.items()}
    status, _, found = asked(server, "GET", "/models.json", **given)
    assert status == 403
    assert b"open that address" in found
    assert learned(server, question(episode(4)), **given)[0] == 403


def test_this_machine_may_call_itself_localhost(server: Server) -> None:
    port = server.server_port
    assert asked(server, "GET", "/", Host=f"localhost:{port}", Origin=f"http://localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "XN"}, "norm must be one of TaskNorm-I, TBN, CBN, got 'XN'"),
        ({"labels": [0, 1, 2, 3, 3]}, "labels must be 0 to 4, each at least once"),
        ({"labels": [0, 1, 2, 3, 4, 4]}, "each context image needs a label, got 5 and 6"),
        ({"way": 0}, "way: Input should be greater than or equal to 1"),
        ({"targets": ""}, "targets must be 1 to 512 images"),
        ({"targets": "AAAA"}, r"images of \(1, 28, 28\) bytes, got 3 bytes"),
        ({"context": "*"}, "context must be base64"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
    ],
)
def test_wrong_questions_are_explained(server: Server, changes: dict[str, Any], message: str) -> None:
    status, found = learned(server, question(episode(4), **changes))
    assert status == 400
    assert re.search(message, found["error"]), found


def test_hostile_bodies_leave_it_alive(server: Server) -> None:
    good = question(episode(4))
    random = np.random.default_rng(0)
    for body in (b"", b"{", b"null", b"[" * 100_000, b"\xff\xfe", random.bytes(5000), b'{"labels": [1e999]}'):
        assert learned(server, body)[0] == 400
    assert learned(server, good, Content_Type="text/plain")[0] == 415
    for length, status in (("-1", 411), ("x", 411), (str(LARGEST_BODY + 1), 413), ("9" * 400, 413)):
        with socket.create_connection(("127.0.0.1", server.server_port)) as raw:
            head = f"POST /learn HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\nContent-Type: application/json\r\n"
            raw.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
            assert raw.makefile("rb").readline().split()[1] == str(status).encode()
    half = socket.create_connection(("127.0.0.1", server.server_port))
    half.sendall(b"POST /learn HTTP/1.1\r\nHost: ")  # and no more
    assert learned(server, good)[0] == 200
    half.close()


def test_a_port_that_is_taken_is_refused(server: Server, playable: Playable) -> None:
    with pytest.raises(SettingsError, match=f"port {server.server_port} of 127.0.0.1 cannot be used"):
        Server(playable, server.server_port)


def test_it_is_on_this_machine_alone(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
