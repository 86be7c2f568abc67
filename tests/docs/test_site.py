"""The whole site, built strictly and looked at in Chromium: nothing is broken, wide, or asked of anybody else."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from making.assemble import assemble
from making.links import ROOT
from making.pictures.moments import measured, words
from tasknorm import NORMS

LOOKED_AT = (
    "index", "five-minutes", "concepts/moments", "concepts/alpha", "howto/photos", "symptoms", "paper/index",
    "paper/tables", "examples/index", "examples/03_audit_a_predictor", "reference/norms", "reference/command-line",
    "reference/formats", "changelog",
)  # fmt: skip
WIDE = """() => [...document.querySelectorAll("body *")].filter((e) => {
  const box = e.getBoundingClientRect();
  if (!box.width || box.right <= innerWidth + 1 || getComputedStyle(e).position === "fixed") return false;
  for (let p = e.parentElement; p; p = p.parentElement)
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(p).overflowX) && p !== document.body) return false;
  return true;
}).map((e) => `${e.tagName}.${e.className} ${e.textContent.trim().slice(0, 40)}`)"""


def built(folder: Path, config: str) -> subprocess.CompletedProcess[str]:
    """A site, built strictly."""
    (folder / "mkdocs.yml").write_text(config)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", "mkdocs.yml"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PATH": path}, timeout=300
    )


def drawn(norm: str) -> list[str]:
    """What the figure says of a norm before anything is chosen."""
    return words("target", measured()[norm]["test"]["target"])


def watched(page: Any, address: str) -> list[str]:
    """What a page will say on its console, and ask of anybody but the server."""
    page.set_default_timeout(120_000)  # a busy machine is no defect
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith((address, "data:")) else troubles.append(r.url))
    return troubles


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on this machine."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs Chromium")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.mark.parametrize(
    "page", ["[a](nothing.md)", "[a](other.md#nowhere)", "[a][tasknorm.nothing]"], ids=["link", "anchor", "reference"]
)
def test_what_leads_nowhere_stops_the_build(page: str, tmp_path: Path) -> None:
    pytest.importorskip("zensical")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Page\n\n{page}\n")
    (tmp_path / "docs" / "other.md").write_text("# Other\n")
    (tmp_path / "src").mkdir()
    done = built(tmp_path, "site_name: x\nplugins: [autorefs, mkdocstrings]\n")
    assert done.returncode != 0
    (tmp_path / "docs" / "index.md").write_text("# Page\n\n[a](other.md#other)\n")
    assert built(tmp_path, "site_name: x\nplugins: [autorefs, mkdocstrings]\n").returncode == 0


SEARCHING = "document.activeElement.shadowRoot?.activeElement?.placeholder === 'Search'"


def test_the_site(chromium: Any, tmp_path: Path) -> None:
    pytest.importorskip("zensical")
    for name in ("src", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    assemble(tmp_path / "site" / "pages")
    done = built(tmp_path, (ROOT / "mkdocs.yml").read_text())
    assert done.returncode == 0, done.stdout + done.stderr
    with served(tmp_path / "site" / "html") as address:
        for width, scheme in ((390, "dark"), (1280, "light")):
            context = chromium.new_context(
                viewport={"width": width, "height": 844}, color_scheme=scheme, has_touch=width < 600
            )
            page = context.new_page()
            troubles = watched(page, address)
            for name in LOOKED_AT:
                page.goto(f"{address}{name}.html")
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name
                assert page.evaluate(WIDE) == [], name
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(int(part) for part in ground.strip("rgba()").split(",")[:3]) < 3 * 128) is (scheme == "dark")
            _play(page, address)
            if width > 600:
                page.goto(f"{address}index.html")
                page.wait_for_load_state("networkidle")
                for _ in range(60):  # the page's script listens to keys some time after the page is there
                    if not page.evaluate(SEARCHING):
                        page.keyboard.press("Control+k")
                        page.wait_for_timeout(500)
                assert page.evaluate(SEARCHING)
                page.keyboard.type("running averages")
                page.get_by_text(re.compile(r"^\d+ results?$")).first.wait_for()
            assert troubles == []
            context.close()


def _play(page: Any, address: str) -> None:
    """The figure of moments, by keyboard and by touch."""
    page.goto(f"{address}concepts/moments.html")

    def said(norm: str) -> list[str]:
        return [line for line in page.locator(f"[data-norm='{norm}'] .said").all_text_contents() if line.strip()]

    assert {norm: said(norm) for norm in NORMS} == {norm: drawn(norm) for norm in NORMS}  # as without JavaScript
    assert page.locator(".badge[visibility=visible]").count() == 1
    page.locator(".moments input[name=image][value='3']").focus()
    page.keyboard.press("ArrowLeft")  # the last context image
    assert said("TBN") == ["itself 33 %", "rest of the context 67 %"]
    assert page.locator(".spoken").inner_text() == "Context image 3, channel 2, at meta-test."
    plane = page.locator("[data-norm=LN] [data-plane='4,0'] .frame")
    plane.scroll_into_view_if_needed()
    plane.click(force=True)
    assert page.locator(".spoken").inner_text() == "Target 2, channel 1, at meta-test."
    page.locator(".moments input[name=mode][value=train]").check(force=True)
    assert said("CBN") == ["itself 33 %", "other targets 67 %"]
    assert page.locator(".badge[visibility=visible]").count() == 0
