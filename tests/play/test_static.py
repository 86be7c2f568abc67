"""The page as a folder that any web host can serve, and onnxruntime-web in a real browser."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

from drawings import Page
from support.glyph_tasks import episode
from tasknorm.errors import DataError, SettingsError
from tasknorm.learners import LearnerGraph
from tasknorm.play import Playable, embedded_learner, fetch_runtime, write_static

ASK = """async ({ norm, context, labels, way, targets }) => {
    const { startedLearner } = await import("./learner.js");
    const about = await (await fetch("models.json")).json();
    const learner = await startedLearner(about);
    const model = about.models.find(each => each.norm === norm);
    const images = list => list.map(each => Uint8Array.from(each));
    const found = await learner.run(model, { context: images(context), labels, way, targets: images(targets) }, true);
    return { where: learner.where, logits: found.logits, own: found.moments.map(rows => rows.at(-1).mean) };
}"""


def test_without_the_runtime_the_folder_says_that_it_is_not_whole(playable: Playable, tmp_path: Path) -> None:
    assert write_static(playable, tmp_path / "page") is False
    names = {path.relative_to(tmp_path / "page").as_posix() for path in (tmp_path / "page").rglob("*")}
    assert {"index.html", "main.js", "style.css", "models.json", "graphs/TBN.onnx"} <= names
    about = json.loads((tmp_path / "page" / "models.json").read_text())
    assert about["runtime"] is None
    assert about["endpoint"] is None
    with pytest.raises(DataError):
        write_static(playable, tmp_path / "page")


def test_without_npm_the_runtime_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TASKNORM_CACHE", str(tmp_path))
    with pytest.raises(SettingsError, match="npm was not found; install Node"):
        fetch_runtime()


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory, playable: Playable) -> Iterator[str]:
    """The folder, whole, behind a plain web server."""
    if shutil.which("npm") is None:
        pytest.skip("onnxruntime-web is fetched by npm, and there is none here")
    folder = tmp_path_factory.mktemp("static") / "page"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TASKNORM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        try:
            fetch_runtime()
        except SettingsError as error:
            pytest.skip(f"onnxruntime-web cannot be fetched here: {error}")
        assert write_static(playable, folder) is True

    class Quiet(SimpleHTTPRequestHandler):
        extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_onnxruntime_web_gives_the_learners_logits(browser: Any, hosted: str) -> None:
    page = browser.new_page()
    page.goto(hosted)
    for seed, (label, way, shot, targets) in enumerate((("TaskNorm-I", 7, 2, 1), ("TBN", 3, 1, 4), ("CBN", 5, 3, 2))):
        task = episode(seed, way=way, shot=shot, targets=targets)
        pixels = [(x * 255).round().int().flatten(1).tolist() for x in (task.context_x, task.target_x)]
        question = {
            "norm": label,
            "context": pixels[0],
            "labels": task.context_y.tolist(),
            "way": way,
            "targets": pixels[1],
        }
        found = page.evaluate(ASK, question)
        assert found["where"] == "in this browser"
        with torch.no_grad():
            learner = embedded_learner(label)
            expected = learner(task)
            one_hot = torch.nn.functional.one_hot(task.context_y, way).float()
            _, *moments = LearnerGraph(learner, moments=True)(task.context_x, one_hot, task.target_x)
        logits = torch.tensor(found["logits"])
        assert float((logits - expected).abs().max()) <= 1e-4 * float(expected.abs().max())
        for own, table in zip(found["own"], moments, strict=True):
            torch.testing.assert_close(torch.tensor(own), table[0, -1], rtol=1e-3, atol=1e-4)
    page.close()


def test_the_folder_works_on_any_host(browser: Any, hosted: str) -> None:
    found = browser.new_page(viewport={"width": 390, "height": 844})
    troubles: list[str] = []
    found.on("console", lambda message: troubles.append(message.text))
    found.on("pageerror", lambda error: troubles.append(str(error)))
    found.on("request", lambda each: troubles.append(each.url) if not each.url.startswith((hosted, "data:")) else None)
    page = Page(found, hosted)
    page.draw([[(0.2, 0.2), (0.8, 0.8)]])
    assert all(abs(sum(row) - 1) < 1e-3 for row in page.answers().values())
    assert "in this browser" in found.locator("#about").inner_text()
    assert troubles == []
    found.close()
