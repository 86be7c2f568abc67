"""Requests per second and latency of `tasknorm serve`: batched, one request at a time, and a plain loop beside it.

Each service runs in a process of its own on all cores, and a client in another one. 32 clients ask for one image after
the other on connections that stay open. "batched" is the service as it is, "unbatched" the same with `--batch 1`,
"one client" the batched service with a single client. "plain loop" is what general model servers do without batching:
a web app hands requests to one worker, which decodes an image, calls the predictor and answers, one by one. Then
requests arrive at four times the batched rate whether they are answered or not ("overload"): how many are told to
come back later, and how long do the admitted ones take?

    python benchmarks/serve.py           prints a table; takes two minutes
    python benchmarks/serve.py --json    prints JSON
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import uvicorn
from fastapi import FastAPI, Request
from PIL import Image

from tasknorm.learners import Predictor
from tasknorm.runs import run_of
from tasknorm.serve import Limits
from tasknorm.serve.bodies import read_uploads
from tasknorm.settings import Settings

TRAINING = {
    "source": "glyphs",
    "learner": "protonets",
    "norm": "TaskNorm-I",
    "iterations": 1,
    "meta_batch": 1,
    "train_way": 5,
    "train_targets": 1,
    "targets": 1,
    "validate_every": 0,
    "test_tasks": 0,
    "device": "cpu",
}
NETS: dict[str, dict[str, Any]] = {
    "Conv-4, 28 pixels": {"net": "protonets-conv4", "image_size": 28},
    "ResNet-18, 84 pixels": {"net": "resnet18", "image_size": 84},
}
CLIENTS = 32
OVERLOAD = 4


@dataclass
class Told:
    """What clients met: the seconds of each answered request, and the number of those that were turned away."""

    seconds: list[float] = field(default_factory=list)
    turned_away: int = 0
    failed: int = 0
    lasted: float = 0.0

    def row(self) -> dict[str, float]:
        """As printed."""
        p50, p99 = (1000 * float(np.percentile(self.seconds, q)) if self.seconds else 0.0 for q in (50, 99))
        return {
            "requests_per_second": round(len(self.seconds) / self.lasted, 1),
            "p50_ms": round(p50, 2),
            "p99_ms": round(p99, 2),
        }


class Wire:
    """A connection that sends one request at a time and reads the answer without waiting."""

    def __init__(self, port: int, request: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = request
        self.began = 0.0
        self._received = b""

    def send(self) -> None:
        """Send the request."""
        self.began, self._received = time.perf_counter(), b""
        self.socket.sendall(self.request)

    def status(self) -> int | None:
        """The status of the answer; None until all of it is there, 0 if the connection was closed."""
        part = self.socket.recv(1 << 16)
        if not part:
            return 0
        self._received += part
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return None
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        return int(head[9:12]) if len(body) >= length else None


def steady(port: int, request: bytes, clients: int, seconds: float) -> Told:
    """Clients that ask for one image after the other, each on a connection of its own."""
    for _ in range(3):  # a service loads a predictor when it is first asked
        asked(port, request)
    told = Told()
    selector = selectors.DefaultSelector()
    wires = [Wire(port, request) for _ in range(clients)]
    for wire in wires:
        selector.register(wire.socket, selectors.EVENT_READ, wire)
        wire.send()
    began = time.perf_counter() + seconds / 4  # after a warm-up
    end = began + seconds
    while (now := time.perf_counter()) < end:
        for key, _ in selector.select(timeout=1):
            wire = key.data
            status = wire.status()
            if status is None:
                continue
            now = time.perf_counter()
            if now >= began:
                _count(told, status, now - wire.began)
            wire.send()
    told.lasted = time.perf_counter() - began
    for wire in wires:
        wire.socket.close()
    if told.failed or not told.seconds:
        raise RuntimeError(f"{told.failed} requests failed, {len(told.seconds)} were answered")
    return told


def flooded(port: int, request: bytes, rate: float, seconds: float) -> Told:
    """Requests that arrive at a rate, answered or not, as far as 240 connections go."""
    told = Told()
    selector = selectors.DefaultSelector()
    free = [Wire(port, request) for _ in range(240)]
    wires = list(free)
    for wire in free:
        selector.register(wire.socket, selectors.EVENT_READ, wire)
    began = time.perf_counter()
    sent = 0
    while (now := time.perf_counter()) < began + seconds or len(free) < len(wires):
        while free and now < began + seconds and began + sent / rate <= now:
            free.pop().send()
            sent += 1
        wait = max(0.0, began + sent / rate - now) if free and now < began + seconds else 0.05
        for key, _ in selector.select(timeout=wait):
            wire = key.data
            status = wire.status()
            if status is not None:
                _count(told, status, time.perf_counter() - wire.began)
                free.append(wire)
    told.lasted = time.perf_counter() - began
    for wire in wires:
        wire.socket.close()
    return told


def _count(told: Told, status: int, seconds: float) -> None:
    if status == 200:
        told.seconds.append(seconds)
    elif status == 503:
        told.turned_away += 1
    else:
        told.failed += 1


def image(seed: int, size: int) -> bytes:
    """A PNG of noise: the time does not depend on what an image shows."""
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (size // 4, size // 4), dtype=np.uint8)
    Image.fromarray(pixels).resize((size, size)).save(file, "PNG")
    return file.getvalue()


def posted(path: str, files: list[tuple[str, bytes]]) -> bytes:
    """A whole request with a form."""
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="a.png"\r\n\r\n'.encode() + data + b"\r\n"
        for name, data in files
    ]
    body = b"".join(parts) + b"--x--\r\n"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def asked(port: int, request: bytes) -> Any:
    """The JSON that answers one request."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return json.loads(response.read())


@contextmanager
def process(*words: object, log: IO[str] | None = None) -> Iterator[int]:
    """The port of a service in a process of its own, which writes errors to a file."""
    variables = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=variables) as child:
        assert child.stdout is not None
        try:
            line = child.stdout.readline()
            yield int(line.split(" at http://")[1].split()[0].rsplit(":", 1)[1])
        finally:
            child.send_signal(signal.SIGTERM)


def measured(run: Path, size: int, seconds: float) -> dict[str, Any]:
    """All services with one net."""
    predictors = run.parent / "predictors"
    context = [(f"class {number % 5}", image(number, size)) for number in range(25)]
    found: dict[str, Any] = {}
    serve = ["-m", "tasknorm", "serve", run, "--folder", predictors, "--port", 0]
    with process(*serve) as port:
        name = asked(port, posted("/predictors", context))["id"]
        request = posted(f"/predictors/{name}/predict", [("image", image(99, size))])
        found["one client"] = steady(port, request, 1, seconds).row()
        found["batched"] = steady(port, request, CLIENTS, seconds).row()
        rate = OVERLOAD * found["batched"]["requests_per_second"]
        told = flooded(port, request, rate, seconds)
        arrived = len(told.seconds) + told.turned_away + told.failed
        found["overload"] = told.row() | {
            "arrived_per_second": round(arrived / told.lasted, 1),
            "turned_away": round(told.turned_away / arrived, 3),
            "failed": told.failed,
        }
    with process(*serve, "--batch", 1) as port:
        found["unbatched"] = steady(port, request, CLIENTS, seconds).row()
    with process(__file__, "--plain", predictors / f"{name}.safetensors") as port:
        found["plain loop"] = steady(port, posted("/predict", [("image", image(99, size))]), CLIENTS, seconds).row()
    rates = {service: row["requests_per_second"] for service, row in found.items()}
    found["batched_to_unbatched"] = round(rates["batched"] / rates["unbatched"], 2)
    found["batched_to_one_client"] = round(rates["batched"] / rates["one client"], 2)
    found["overload_p50_to_batched"] = round(found["overload"]["p50_ms"] / found["batched"]["p50_ms"], 2)
    found["overload_p99_to_batched"] = round(found["overload"]["p99_ms"] / found["batched"]["p99_ms"], 2)
    found["batched_to_plain_loop"] = round(rates["batched"] / rates["plain loop"], 2)
    return found


def plain_loop(file: Path) -> None:
    """A service without batching: one worker takes requests from a queue and answers them one by one."""
    predictor = Predictor.load(file)
    waiting: asyncio.Queue[tuple[bytes, asyncio.Future[Any]]] = asyncio.Queue()

    async def work() -> None:
        while True:
            data, answer = await waiting.get()
            answer.set_result(await asyncio.to_thread(predictor.classify, [data]))

    app = FastAPI()

    @app.post("/predict")
    async def predict(request: Request) -> dict[str, Any]:
        (upload,) = read_uploads(request.headers["content-type"], await request.body(), Limits(), by_class=False)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await waiting.put((upload.data, future))
        return {"probabilities": (await future)[0].probabilities}

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio then sets TCP_NODELAY
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"serves at http://127.0.0.1:{listener.getsockname()[1]}", flush=True)

    async def main() -> None:
        worker = asyncio.create_task(work())
        await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listener])
        worker.cancel()

    asyncio.run(main())


def table(found: dict[str, Any]) -> str:
    """As printed."""
    lines = []
    for net, services in found.items():
        lines += ["", net, f"{'':24}{'requests / s':>14}{'p50 ms':>9}{'p99 ms':>9}"]
        for name, row in services.items():
            if isinstance(row, dict):
                lines.append(f"{name:24}{row['requests_per_second']:14}{row['p50_ms']:9}{row['p99_ms']:9}")
            else:
                lines.append(f"{name.replace('_', ' '):24}{row:14}")
        lines.append(f"turned away at {OVERLOAD} times the load: {100 * services['overload']['turned_away']:.0f} %")
    return "\n".join(lines[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=float, default=6.0, help="seconds of each measurement")
    parser.add_argument("--nets", default=",".join(NETS), help="beginnings of the nets' names")
    parser.add_argument("--plain", type=Path, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.plain:
        plain_loop(words.plain)
        return
    found = {}
    for name, settings in NETS.items():
        if name.startswith(tuple(words.nets.split(","))):
            with tempfile.TemporaryDirectory() as folder:
                run = Path(folder) / "run"
                run_of(Settings.of(TRAINING | settings), run).do()
                found[name] = measured(run, settings["image_size"], words.seconds)
    print(json.dumps(found, indent=2) if words.json else table(found))


if __name__ == "__main__":
    main()
