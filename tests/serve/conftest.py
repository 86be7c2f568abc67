"""Runs whose learners make the predictors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.runs import run, tiny
from support.service import pictures
from tasknorm.learners import Predictor
from tasknorm.runs import Adapter


@pytest.fixture(scope="session")
def run_of_norm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a small run with a norm, trained once in a session."""
    base = tmp_path_factory.mktemp("runs with ümlauts")

    def made(norm: str) -> Path:
        folder = base / norm
        if not folder.exists():
            run(tiny(norm=norm, iterations=2, test_tasks=0, validate_every=0), folder)
        return folder

    return made


@pytest.fixture
def run_folder(run_of_norm: Callable[[str], Path], glyph_cache: None) -> Path:
    """A run with TaskNorm-I."""
    return run_of_norm("TaskNorm-I")


@pytest.fixture
def predictor_of(run_of_norm: Callable[[str], Path], glyph_cache: None) -> Callable[..., Predictor]:
    """A predictor with a norm, for three classes of two images."""

    def made(norm: str = "TaskNorm-I", seed: int = 0) -> Predictor:
        adapter = Adapter(run_of_norm(norm))
        return adapter({f"class {c}": pictures(adapter.preparation, 2, seed + 10 * c) for c in range(3)})

    return made
