"""The page's server and a real browser, for the tests of the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from drawings import served
from tasknorm.play import Playable, Server, embedded


@pytest.fixture(autouse=True)
def _own_places(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes this machine's caches."""
    monkeypatch.setenv("TASKNORM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def playable() -> Playable:
    """The learners that ship with the package."""
    return embedded()


@pytest.fixture
def server(playable: Playable) -> Iterator[Server]:
    """A server of the page, which computes by Python."""
    with served(playable) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium here; on Debian: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="the page is looked at through playwright")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()
