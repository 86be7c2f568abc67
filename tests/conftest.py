"""Settings that every test shares."""

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


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
