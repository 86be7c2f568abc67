"""Send damaged requests to `tasknorm serve`: it must stay alive, answer the sound ones, and keep its memory.

    python benchmarks/serve_fuzz.py --requests 10000 --json

Requests are sound ones with bytes changed, cut, repeated or inserted: in the request line, the headers, the form, the
JSON or the images. Some are left half-sent, on some the client hangs up. Every answer must be whole HTTP: a success,
an error in JSON with rule, value and fix, and never 500. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import io
import json
import random
import re
import socket
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from serve import NETS, TRAINING, asked, image, posted, process
from tasknorm.runs import run_of
from tasknorm.settings import Settings

TOKENS = [
    *(b"\r\n", b"\r\n\r\n", b"\0", b"\xff\xfe", b"\xf0\x9f\xa6\xa9", b"--x", b"--x--", b'"', b"\\", b"%00", b"../"),
    *(b"{", b"[" * 5000, b"e" * 9000, b"boundary=", b"name=", b"filename=", b"base64,", b"NaN", b"1e999"),
    *(b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: x\r\n"),
    *(b"Connection: close\r\n", b"Upgrade: websocket\r\nConnection: upgrade\r\n", b"Expect: 100-continue\r\n"),
    *(b"5\r\n", b"FFFFFFFFF\r\n", b"HTTP/1.0", b"HTTP/9.9"),
]  # fmt: skip


@dataclass
class Found:
    """What came back."""

    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def seeds(name: str) -> list[bytes]:
    """Sound requests."""
    pictures = [image(number, 28) for number in range(4)] + [_picture(kind) for kind in ("JPEG", "GIF", "TIFF", "WEBP")]
    base = [base64.b64encode(picture).decode() for picture in pictures]
    predict, examples = f"/predictors/{name}/predict", f"/predictors/{name}/examples"
    found = [posted(predict, [("image", picture)]) for picture in pictures]
    found.append(posted(predict + "?together=true", [("image", picture) for picture in pictures]))
    found.append(posted("/predictors", [("a", pictures[0]), ("b", pictures[1])]))
    found.append(posted(examples, [("class 0", pictures[0])]))
    for path, value in ((predict, {"images": base}), ("/predictors", {"classes": {"a": base[:2], "b": base[2:]}})):
        body = json.dumps(value).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        found.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:100], body[100:]))
        found.append(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n")
    lines = ("GET /predictors", f"GET /predictors/{name}", "DELETE /predictors/x", "GET /metrics", "GET /docs")
    return found + [f"{line} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for line in lines]


def _picture(kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(file, kind)
    return file.getvalue()


def damaged(request: bytes, chance: random.Random) -> bytes:
    """A request with up to four changes; half of the time in its body alone, whose length is then told rightly."""
    head, _, body = request.partition(b"\r\n\r\n")
    if chance.random() < 0.5 and b"Content-Length" in head:
        body = changed(body, chance)
        head = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(body), head)
        return head + b"\r\n\r\n" + body
    return changed(request, chance)


def changed(sound: bytes, chance: random.Random) -> bytes:
    """Bytes with up to four changes, near their start as often as anywhere."""
    data = bytearray(sound)
    for _ in range(chance.choice([0, 1, 1, 1, 2, 4])):
        end = min(len(data), chance.choice([20, 150, 400, len(data)]))
        at = chance.randrange(max(1, end))
        kind = chance.randrange(6)
        if kind == 0:
            data[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            del data[at : at + chance.choice([1, 10, 500])]
        elif kind == 2:
            data[at:at] = chance.choice(TOKENS)
        elif kind == 3:
            data[at:at] = data[at : at + chance.choice([5, 100])]
        elif kind == 4:
            data[at:at] = chance.randbytes(chance.choice([1, 50]))
        else:
            del data[at + 1 :]
        if not data:
            break
    return bytes(data)


def sent(port: int, request: bytes, chance: random.Random, found: Found) -> None:
    """Send a request on a connection of its own, and check the answer if there is one."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        if chance.random() < 0.1:
            found.statuses["hung up"] += 1
            return
        connection.settimeout(0.3)  # the service may be waiting for the rest
        try:
            first = connection.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            found.statuses["left half-sent"] += 1
            return
        if not first:
            found.statuses["closed"] += 1
            return
        connection.settimeout(30)
        response = http.client.HTTPResponse(connection)
        try:
            response.begin()
            body = response.read()
        except http.client.HTTPException as error:
            found.wrong.append(f"{error!r} after {request[:200]!r}")
            return
        found.statuses[str(response.status)] += 1
        if response.status >= 500 and response.status != 503:
            found.wrong.append(f"status {response.status} after {request[:200]!r}")
        if response.status >= 400 and set(json.loads(body)["error"]) != {"rule", "value", "fix"}:
            found.wrong.append(f"{body[:200]!r} after {request[:200]!r}")


def fuzzed(port: int, requests: int, seed: int, name: str) -> dict[str, Any]:
    """What a service did with damaged requests from eight clients."""
    found = Found()
    sound = seeds(name)
    memory = []
    for part in range(5):  # memory is compared from the end of the first part on
        numbers = iter(range(part * requests // 5, (part + 1) * requests // 5))
        lock = threading.Lock()

        def client(numbers: Any = numbers, lock: threading.Lock = lock) -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                chance = random.Random(f"{seed} {number}")
                sent(port, damaged(chance.choice(sound), chance), chance, found)

        clients = [threading.Thread(target=client) for _ in range(8)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        memory.append(_resident(port))
    answer = asked(port, posted(f"/predictors/{name}/predict", [("image", image(1, 28))]))
    if len(answer["answers"]) != 1:
        found.wrong.append(f"a sound request got {answer}")
    return {
        "requests": requests,
        "answers": dict(sorted(found.statuses.items())),
        "wrong": found.wrong[:20],
        "resident_megabytes": [round(value / 1e6) for value in memory],
    }


def _resident(port: int) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith("tasknorm_resident_bytes ")), 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        run_of(Settings.of(TRAINING | NETS["Conv-4, 28 pixels"] | {"filters": 8}), run).do()
        limits = ["--idle-seconds", 2, "--seconds", 5, "--predictors", 20, "--context", 12]
        serve = ["-m", "tasknorm", "serve", run, "--folder", Path(folder) / "predictors", "--port", 0, *limits]
        log = (Path(folder) / "log.txt").open("w+")
        with log, process(*serve, log=log) as port:
            context = [(f"class {number % 3}", image(number, 28)) for number in range(6)]
            name = asked(port, posted("/predictors", context))["id"]
            found = fuzzed(port, words.requests, words.seed, name)
            log.seek(0)
            found["wrong"] += log.read().splitlines()[-20:]  # it has nothing to say
    if words.json:
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(f"{key}: {value}" for key, value in found.items()))
    sys.exit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()
