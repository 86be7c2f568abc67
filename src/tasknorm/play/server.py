"""The page's server: a few files and one function, for this machine alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor
from torch.nn import functional as F

from tasknorm.data import SCALINGS
from tasknorm.errors import SettingsError, one_line, reason
from tasknorm.learners import first_output
from tasknorm.play.models import Playable
from tasknorm.play.runtime import runtime_files
from tasknorm.play.static import files_of

HOST = "127.0.0.1"
LARGEST_BODY = 1 << 25  # bytes
MOST_IMAGES = 512
PATIENCE = 30  # seconds without a byte until a connection is closed
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".onnx": "application/octet-stream",
}


class Question(BaseModel):
    """What the page asks: learn this context, then say the logits of these targets."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    norm: str
    way: int = Field(ge=1, le=MOST_IMAGES)
    labels: list[int] = Field(min_length=1, max_length=MOST_IMAGES)
    context: str
    targets: str
    moments: bool = False


class RefusedError(ValueError):
    """A request that is not answered, and the status that says why."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Server(ThreadingHTTPServer):
    """Serves the page on 127.0.0.1, and computes for it.

    Args:
        playable: the learners.
        port: the port; 0 for any that is free.

    Raises:
        SettingsError: if the port is taken.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, playable: Playable, port: int = 0) -> None:
        self.playable = playable
        self.files = files_of(playable, endpoint="learn", runtime=runtime_files())
        self.computing = Lock()  # a norm is in one phase at a time
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise SettingsError(
                f"port {port} of {HOST} cannot be used ({reason(error)}); choose another with --port, or 0 for any"
            ) from None

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"

    @property
    def in_browser(self) -> bool:
        """Whether the page computes in the browser."""
        return any(name.startswith("runtime/") for name in self.files)

    def answered(self, body: bytes) -> dict[str, Any]:
        """The answer to a question of the page.

        Raises:
            RefusedError: if it is none.
        """
        try:
            question = Question.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            raise RefusedError(HTTPStatus.BAD_REQUEST, one_line(f"{where}: {first['msg']}; correct it")) from None
        graphs = {model.norm: model.graph for model in self.playable.models}
        if question.norm not in graphs:
            raise _wrong(f"norm must be one of {', '.join(graphs)}, got {one_line(question.norm)!r}")
        if set(question.labels) != set(range(question.way)):
            raise _wrong(f"labels must be 0 to {question.way - 1}, each at least once, got {question.labels[:8]}")
        context, targets = self._images("context", question.context), self._images("targets", question.targets)
        if len(context) != len(question.labels):
            raise _wrong(f"each context image needs a label, got {len(context)} and {len(question.labels)}")
        labels = F.one_hot(torch.tensor(question.labels), question.way).float()
        with self.computing, torch.inference_mode():
            found = graphs[question.norm](context, labels, targets)
        tables = found[1:] if isinstance(found, tuple) and question.moments else None
        moments = None if tables is None else [table.flatten().tolist() for table in tables]
        return {"logits": first_output(found).tolist(), "moments": moments}

    def _images(self, name: str, encoded: str) -> Tensor:
        about = self.playable.preparation
        shape = about["channels"], about["size"], about["size"]
        try:
            content = base64.b64decode(encoded, validate=True)
        except ValueError as error:
            raise _wrong(f"{name} must be base64, got {one_line(str(error))}") from None
        count, rest = divmod(len(content), shape[0] * shape[1] * shape[2])
        if rest or not 1 <= count <= MOST_IMAGES:
            raise _wrong(f"{name} must be 1 to {MOST_IMAGES} images of {shape} bytes, got {len(content)} bytes")
        pixels = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(count, *shape)
        scaled: Tensor = SCALINGS[about["scale"]](pixels)
        return scaled


def _wrong(message: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, message)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "tasknorm"
    sys_version = ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        self._answer(self._file)

    def do_HEAD(self) -> None:
        self._answer(self._file)

    def do_POST(self) -> None:
        self._answer(self._learn)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""

    def _answer(self, make: Any) -> None:
        try:
            self._check_host()
            self._send(HTTPStatus.OK, *make())
        except RefusedError as error:
            self.close_connection = True
            self._send(error.status, ".json", json.dumps({"error": str(error)}).encode())
        except OSError:  # the browser has gone
            self.close_connection = True
        except Exception as error:
            self.close_connection = True
            message = f"the learner failed ({reason(error)}); report this"
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, ".json", json.dumps({"error": message}).encode())

    def _check_host(self) -> None:
        """Another site may make its own name point here, and so read what is on this machine."""
        allowed = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        origin = self.headers.get("Origin")
        hosts = [self.headers.get("Host", ""), *([urlsplit(origin).netloc] if origin else [])]
        if any(host not in allowed for host in hosts):
            raise RefusedError(
                HTTPStatus.FORBIDDEN, f"this server answers {self.server.address} alone; open that address"
            )

    def _file(self) -> tuple[str, bytes]:
        name = urlsplit(self.path).path.lstrip("/") or "index.html"
        content = self.server.files.get(name)
        if content is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"there is no file {one_line(name)!r} here; open /")
        return PurePosixPath(name).suffix, content

    def _learn(self) -> tuple[str, bytes]:
        if urlsplit(self.path).path != "/learn":
            raise RefusedError(HTTPStatus.NOT_FOUND, f"only /learn takes questions, got {one_line(self.path)!r}")
        if self.headers.get_content_type() != "application/json":
            raise RefusedError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"a question is application/json, got {one_line(self.headers.get_content_type())}; set Content-Type",
            )
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "a question must say its Content-Length; send it")
        if len(length) > 12 or int(length) > LARGEST_BODY:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"a question may have {LARGEST_BODY:,} bytes, got {length[:20]}; send fewer images",
            )
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise _wrong(f"a question of {length} bytes was announced, got {len(body)}; send it again")
        return ".json", json.dumps(self.server.answered(body)).encode()

    def _send(self, status: HTTPStatus, suffix: str, content: bytes) -> None:
        headers: Mapping[str, str] = {
            "Content-Type": TYPES.get(suffix, "application/octet-stream"),
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
