"""Run folders in which a file is damaged: every command ends with a sentence that names it, never with a traceback."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.runs import run, tiny
from tasknorm.cli import app

pytestmark = pytest.mark.usefixtures("glyph_cache")
FILES = ("config.json", "result.json", "metrics.jsonl", "model.safetensors", "best.safetensors", "checkpoints/00000012")
WAYS = ("cut", "a list", "a link to nothing", "a pipe")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TASKNORM_CACHE", str(tmp_path_factory.getbasetemp() / "glyphs"))
        run(tiny(test_tasks=1, validation_tasks=1), folder := tmp_path_factory.mktemp("run") / "whole")
    return folder


def damage(path: Path, way: str) -> None:
    path = next(path.glob("*.pt")) if path.is_dir() else path
    content = path.read_bytes()
    path.unlink()
    if way == "a link to nothing":
        path.symlink_to("nothing")
    elif way == "a pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"[]" if way == "a list" else content[: len(content) // 2])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FILES)
def test_every_command_says_what_is_wrong(whole: Path, name: str, way: str, tmp_path: Path) -> None:
    for words in (["evaluate", "--tasks", "1"], ["report"], ["train", "--resume", "--out"]):
        folder = tmp_path / words[0] / "run"
        shutil.copytree(whole, folder)
        damage(folder / name, way)
        verb, *flags = words
        out = ["--out", str(tmp_path / "out")] if verb == "report" else []
        where = [*flags, str(folder)] if verb == "train" else [str(folder), *flags, *out]
        result = CliRunner().invoke(app, [verb, *where])
        assert result.exception is None or isinstance(result.exception, SystemExit), (words, result.exception)
        assert result.exit_code in (0, 2), result.stderr
        if result.exit_code == 2:
            assert result.stderr.strip().splitlines()[-1].startswith("tasknorm: "), result.stderr
