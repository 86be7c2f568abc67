"""Fixtures of the data layer's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.data_files import (
    write_cifar,
    write_mini_imagenet,
    write_mnist,
    write_omniglot,
    write_pets,
    write_quickdraw,
    write_recorded,
)


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with two to six images of each class of every source."""
    root = tmp_path_factory.mktemp("data")
    write_omniglot(root / "omniglot.zip")
    write_mini_imagenet(root / "mini_imagenet.zip")
    write_mnist(root / "mnist")
    write_cifar(root)
    write_quickdraw(root / "quickdraw")
    write_pets(root / "pets")
    write_recorded(root / "recorded", root / "pets")
    return root


@pytest.fixture(autouse=True)
def _own_places(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes this machine's data and caches."""
    monkeypatch.setenv("TASKNORM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("TASKNORM_DATA", raising=False)
