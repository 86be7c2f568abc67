"""`tasknorm serve` as a real process: what callers get, what is refused, and what a restart leaves."""

from __future__ import annotations

import base64
import http.client
import io
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from support.service import FORM, Reply, Served, context, encoded, form, png, serving
from tasknorm.cli import app
from tasknorm.files import TEMPORARY
from tasknorm.learners import Predictor
from tasknorm.runs import adapted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

TARGETS = [("image", f"target {number}.png", png(1000 + number)) for number in range(4)]


@pytest.fixture
def served(run_folder: Path, tmp_path: Path) -> Iterator[Served]:
    """A service with small limits."""
    limits = ["--images", 8, "--classes", 4, "--context", 12, "--predictors", 2, "--body-megabytes", 0.5]
    with serving(run_folder, tmp_path / "predictors", *limits, "--megapixels", 60) as one:
        yield one


def made(served: Served, **shape: int) -> str:
    reply = served.send("/predictors", context(**shape))
    assert reply.status == 201, reply
    assert reply.headers["location"] == f"/predictors/{reply.json['id']}"
    return reply.json["id"]


def probabilities(reply: Reply) -> np.ndarray:
    assert reply.status == 200, reply
    return np.array([list(answer["probabilities"].values()) for answer in reply.json["answers"]])


def refused(reply: Reply, status: int, rule: str) -> None:
    assert reply.status == status, reply
    assert rule in reply.error["rule"], reply.error


def by_class(files: list[tuple[str, str, bytes]]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for field, _, data in files:
        found.setdefault(field, []).append(data)
    return found


def test_a_predictors_life(served: Served, run_folder: Path, tmp_path: Path) -> None:
    """Made, asked in three ways, given more examples, asked again, deleted; the answers are those of the library."""
    id = made(served)
    own = adapted(run_folder, by_class(context()))
    about = {"id": id, "classes": {f"class {c}": 2 for c in range(3)}, "transductive": False}
    assert served.ask("GET", f"/predictors/{id}").json == about
    assert served.ask("GET", "/predictors").json == {"predictors": [id]}

    path = f"/predictors/{id}/predict"
    as_form = served.send(path, TARGETS)
    expected = own.classify([data for _, _, data in TARGETS])
    assert as_form.json["together"] is as_form.json["transductive"] is False
    for answer, one, (_, file, _) in zip(as_form.json["answers"], expected, TARGETS, strict=True):
        assert (answer["file"], answer["name"]) == (file, one.name)
        assert answer["probabilities"] == pytest.approx(one.probabilities, abs=1e-5)
    images = [base64.b64encode(data).decode() for _, _, data in TARGETS]
    as_json = served.ask("POST", path, json.dumps({"images": images}).encode(), {"Content-Type": "application/json"})
    assert probabilities(as_json) == pytest.approx(probabilities(as_form), abs=1e-5)
    as_image = served.ask("POST", path, TARGETS[0][2], {"Content-Type": "image/png"})
    assert probabilities(as_image) == pytest.approx(probabilities(as_form)[:1], abs=1e-5)
    assert served.send(f"{path}?together=true", TARGETS).json["together"] is False  # the answers are the same

    more = [("heron ü🦩", "h.png", png(7)), ("class 0", "c.png", png(8))]
    reply = served.send(f"/predictors/{id}/examples", more)
    assert reply.json["classes"] == {"class 0": 3, "class 1": 2, "class 2": 2, "heron ü🦩": 1}
    whole = adapted(run_folder, by_class([*context(), more[1], more[0]]))
    found = served.send(path, TARGETS)
    for answer, one in zip(found.json["answers"], whole.classify([data for _, _, data in TARGETS]), strict=True):
        assert answer["probabilities"] == pytest.approx(one.probabilities, abs=1e-5)
    saved = Predictor.load(tmp_path / "predictors" / f"{id}.safetensors")  # anybody can use the file
    assert saved.names == whole.names

    clients = [
        threading.Thread(target=served.send, args=(f"/predictors/{id}/examples", [("class 2", "d.png", png(20 + n))]))
        for n in range(4)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert served.ask("GET", f"/predictors/{id}").json["classes"]["class 2"] == 6  # none was lost

    assert served.ask("DELETE", f"/predictors/{id}").status == 204
    for method, where in (("GET", ""), ("DELETE", "")):
        refused(served.ask(method, f"/predictors/{id}{where}"), 404, "no predictor with this id")
    refused(served.send(path, TARGETS), 404, "no predictor with this id")
    assert not list((tmp_path / "predictors").glob("*.safetensors"))


def test_every_refusal_is_json_with_rule_value_and_fix(served: Served) -> None:
    id = made(served)
    predict, examples = f"/predictors/{id}/predict", f"/predictors/{id}/examples"
    refused(served.ask("GET", "/nowhere"), 404, "nothing at this path")
    wrong = served.ask("PUT", "/predictors")
    refused(wrong, 405, "GET, POST")
    assert wrong.headers["allow"] == "GET, POST"
    refused(served.send(f"{predict}?together=perhaps", TARGETS), 422, "together")
    refused(served.ask("POST", predict, b"hello", {"Content-Type": "text/plain"}), 415, "must be multipart/form-data")
    refused(served.send(predict, []), 422, "at least one image")
    refused(served.send(predict, TARGETS * 3), 413, "may hold 8 images")
    refused(served.send("/predictors", [("a", "a.png", png(1))]), 422, "2 to 4 classes")
    refused(served.send("/predictors", [(c, "a.png", png(1)) for c in "abcde"]), 422, "at most 4 classes")
    refused(served.send(examples, [(c, "a.png", png(1)) for c in "ab"]), 422, "2 to 4 classes")
    assert served.send(examples, context(shot=2)).status == 200
    refused(served.send(examples, context(shot=1)), 413, "at most 12 images")
    made(served)
    refused(served.send("/predictors", context()), 429, "at most 2 predictors")

    broken = served.send(predict, [TARGETS[0], ("image", "evil.png", b"no image")])
    refused(broken, 422, "does not decode")
    assert broken.error["value"] == "evil.png"
    bomb = encoded(np.zeros((8000, 8000), np.uint8))
    assert len(bomb) < 100_000
    refused(served.send(predict, [("image", "bomb.png", bomb)]), 422, "50,000,000 pixels at most")
    large = encoded(np.zeros((5000, 6000), np.uint8))
    assert served.send(predict, [("image", "large.png", large)] * 2).status == 200
    refused(served.send(predict, [("image", "large.png", large)] * 3), 413, "60,000,000 pixels together")

    body = form(TARGETS) + b" " * 600_000
    refused(served.ask("POST", predict, body, {"Content-Type": FORM}), 413, "500,000 bytes")
    chunks = (body[start : start + 50_000] for start in range(0, len(body), 50_000))
    refused(served.ask("POST", predict, chunks, {"Content-Type": FORM}), 413, "500,000 bytes")
    refused(served.ask("POST", predict, b"", {"Content-Length": "999999999999"}), 413, "500,000 bytes")
    assert served.send(predict, TARGETS).status == 200  # as if nothing had been


def test_a_stranger_without_the_token_or_from_another_site_gets_nothing(run_folder: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("correct-horse\n")
    with serving(run_folder, tmp_path / "p", "--token-file", token) as served:
        assert served.ask("GET", "/health").status == 200
        for path in ("/predictors", "/metrics", "/docs", "/openapi.json", "/nowhere"):
            reply = served.ask("GET", path)
            refused(reply, 401, "needs its token")
            assert reply.headers["www-authenticate"] == "Bearer"
        for value in ("correct-horse", "Bearer correct-hors", "Bearer correct-horse2", "Bearer ü", "Basic x"):
            refused(served.ask("GET", "/predictors", headers={"Authorization": value}), 401, "needs its token")
        key = {"Authorization": "Bearer correct-horse"}
        assert served.ask("GET", "/predictors", headers=key).status == 200
        for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[::2]"):
            refused(served.ask("GET", "/predictors", headers=key | {"Host": host}), 403, "answers to the names")
        for host in ("localhost", f"LOCALHOST:{served.port}", "[::1]:1"):
            assert served.ask("GET", "/predictors", headers=key | {"Host": host}).status == 200
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
            refused(served.ask("POST", "/predictors", headers=key | {"Origin": origin}), 403, "pages of other sites")
        own = {"Origin": f"http://127.0.0.1:{served.port}"}
        assert served.ask("GET", "/predictors", headers=key | own).status == 200
        assert "access-control-allow-origin" not in served.ask("GET", "/health", headers=own).headers
    with serving(run_folder, tmp_path / "p", TASKNORM_TOKEN="correct-horse") as served:
        refused(served.ask("GET", "/predictors"), 401, "needs its token")


def test_a_transductive_predictor_says_so_and_answers_one_at_a_time(run_of_norm, glyph_cache, tmp_path: Path) -> None:
    with serving(run_of_norm("TBN"), tmp_path / "p") as served:
        id = made(served)
        assert served.ask("GET", f"/predictors/{id}").json["transductive"] is True
        path = f"/predictors/{id}/predict"
        alone = served.send(path, TARGETS)
        singles = np.concatenate([probabilities(served.send(path, [target])) for target in TARGETS])
        together = served.send(f"{path}?together=true", TARGETS)
    assert (alone.json["transductive"], alone.json["together"]) == (True, False)
    assert probabilities(alone) == pytest.approx(singles, abs=1e-5)
    assert (together.json["transductive"], together.json["together"]) == (True, True)
    assert np.abs(probabilities(together) - singles).max() > 1e-3


@pytest.mark.parametrize("norm", ["TaskNorm-I", "TBN"])
def test_no_clients_answer_depends_on_anothers_images(run_of_norm, glyph_cache, tmp_path: Path, norm: str) -> None:
    """Many clients at once, beside others that send black, white and noisy images."""
    with serving(run_of_norm(norm), tmp_path / "p") as served:
        path = f"/predictors/{made(served)}/predict"
        alone = probabilities(served.send(path, TARGETS))
        extremes = [encoded(np.full((28, 28), tone, np.uint8)) for tone in (0, 255)]
        stop = threading.Event()
        failures: list[Reply] = []

        def disturb(number: int) -> None:
            while not stop.is_set():
                images = [extremes[number % 2]] * (1 + number) if number < 4 else [png(number)]
                reply = served.send(path, [("image", "x.png", data) for data in images])
                failures.extend([reply] if reply.status != 200 else [])

        threads = [threading.Thread(target=disturb, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        found = [probabilities(served.send(path, TARGETS)) for _ in range(25)]
        stop.set()
        for thread in threads:
            thread.join()
        passes, images = served.metric("tasknorm_batch_images_count"), served.metric("tasknorm_batch_images_sum")
        asked = [line for line in served.ask("GET", "/metrics").body.decode().splitlines() if '/predict"' in line]
    assert not failures
    assert max(np.abs(one - alone).max() for one in found) <= 1e-5
    requests = next(int(line.split()[-1]) for line in asked if "requests_total" in line)
    if norm == "TBN":
        assert passes == requests  # never mixed
    else:
        assert passes < requests < images


def test_predictors_are_there_after_sigterm_and_after_sigkill(run_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine, with spaces"
    with serving(run_folder, folder) as served:
        id = made(served)
        before = probabilities(served.send(f"/predictors/{id}/predict", TARGETS))
        code, error = served.stop()
        assert (code, error) == (-signal.SIGTERM, "")
    for _ in range(2):
        with serving(run_folder, folder) as served:
            after = probabilities(served.send(f"/predictors/{id}/predict", TARGETS))
            assert after == pytest.approx(before, abs=1e-5)
            busy = [threading.Thread(target=_make_until_killed, args=(served,)) for _ in range(2)]
            for thread in busy:
                thread.start()
            there = len(list(folder.glob("*.safetensors")))
            while len(list(folder.glob("*.safetensors"))) < there + 2:
                time.sleep(0.01)
            served.stop(signal.SIGKILL)  # the next ones are being made and written
            for thread in busy:
                thread.join()
    files = list(folder.glob("*.safetensors"))
    assert len(files) >= 5
    for file in files:
        assert Predictor.load(file).names  # none is torn
    with serving(run_folder, folder) as served:
        assert set(served.ask("GET", "/predictors").json["predictors"]) == {file.stem for file in files}
        assert not [path for path in folder.iterdir() if TEMPORARY.fullmatch(path.name)]
        other = subprocess.run(
            [sys.executable, "-m", "tasknorm", "serve", run_folder, "--folder", folder, "--port", "0"],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert other.returncode == 2
        assert "another process is writing to this folder" in other.stderr


def _make_until_killed(served: Served) -> None:
    try:
        while served.send("/predictors", context()).status == 201:
            pass
    except (OSError, http.client.HTTPException):
        pass


def test_sigterm_lets_requests_finish(run_folder: Path, tmp_path: Path) -> None:
    with serving(run_folder, tmp_path / "p") as served:
        path = f"/predictors/{made(served)}/predict"
        body = form(TARGETS)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\nContent-Length: {len(body)}\r\n\r\n"
        with served.connected(head.encode() + body[:100]) as connection:
            time.sleep(0.3)
            served.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            connection.sendall(body[100:])
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        code, error = served.stop()
    assert (code, error) == (-signal.SIGTERM, "")


def test_docs_load_nothing_from_elsewhere_and_openapi_names_all_paths(served: Served) -> None:
    page = served.ask("GET", "/docs")
    text = page.body.decode()
    assert "<script" not in text
    assert text.count("http") == text.count(f"http://127.0.0.1:{served.port}")  # the commands to copy
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    paths = json.loads(served.ask("GET", "/openapi.json").body)["paths"]
    assert {method for methods in paths.values() for method in methods} == {"get", "post", "delete"}
    for path in paths:
        assert path in text
    for path in ("/", "/health", "/metrics", "/predictors"):
        assert served.ask("GET", path).status == 200


def test_mistakes_on_the_command_line(run_folder: Path, tmp_path: Path) -> None:
    def told(*words: object, **variables: str) -> str:
        found = CliRunner().invoke(app, ["serve", *map(str, words)], env=variables)
        assert found.exit_code == 2, found.output
        assert found.stderr.count("\n") == 1, found.stderr
        return found.stderr

    folder = ("--folder", tmp_path / "p")
    assert "no finished training in this folder" in told(tmp_path, *folder)
    assert "--queue: input should be greater than or equal to 1, got '0'" in told(run_folder, *folder, "--queue", 0)
    assert "8 or more printable ASCII characters" in told(run_folder, *folder, TASKNORM_TOKEN="short")
    assert "the token cannot be read" in told(run_folder, *folder, "--token-file", tmp_path / "none")
    assert "cannot listen at 192.0.2.1 port 0" in told(run_folder, *folder, "--host", "192.0.2.1", "--port", 0)
    missing = "import sys; sys.modules['uvicorn'] = None; from tasknorm.cli import app; app()"
    found = subprocess.run(
        [sys.executable, "-c", missing, "serve", run_folder], capture_output=True, text=True, timeout=120
    )
    assert "pip install 'tasknorm[serve]'" in found.stderr.splitlines()[-1]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_docs_work_as_they_are_printed(run_folder: Path, tmp_path: Path) -> None:
    """Each `curl` line of docs/serve.md, in order, in a folder with photos."""
    text = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("curl ")]
    assert len(lines) >= 6
    for name in ("heron1.jpg", "heron2.jpg", "stork1.jpg", "stork2.jpg", "crane1.jpg", "new1.jpg", "new2.jpg"):
        pixels = np.random.default_rng(len(name)).integers(0, 256, (60, 80, 3), dtype=np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG")
        (tmp_path / name).write_bytes(file.getvalue())
    with serving(run_folder, tmp_path / "predictors", TASKNORM_TOKEN="") as served:
        id = ""
        for line in lines:
            line = line.replace("localhost:8000", f"127.0.0.1:{served.port}").replace("$ID", id)
            done = subprocess.run(
                ["sh", "-c", line.replace("curl ", "curl -sS --fail-with-body ")],
                cwd=tmp_path, capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            assert done.returncode == 0, (line, done)
            id = json.loads(done.stdout)["id"] if '"id"' in done.stdout else id
