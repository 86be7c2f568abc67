"""Settings that every test shares."""

import os
from pathlib import Path

import hypothesis
import pytest
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("untimed", deadline=None)  # how long a disk takes is no property
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--data-root", help="folder of the real datasets (default: the variable TASKNORM_DATA)")


@pytest.fixture(scope="session")
def data_root(request: pytest.FixtureRequest) -> Path:
    """The folder of the real datasets; the test is skipped where it is absent."""
    root = request.config.getoption("--data-root") or os.environ.get("TASKNORM_DATA")
    if not root:
        pytest.skip("needs the real datasets: set TASKNORM_DATA or pass --data-root")
    if not Path(root).is_dir():
        pytest.skip(f"needs the real datasets, {root} is no folder")
    return Path(root)


@pytest.fixture
def glyph_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache of glyphs for all tests of a session, also if several processes run them."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    monkeypatch.setenv("TASKNORM_CACHE", str(shared / "glyphs"))
