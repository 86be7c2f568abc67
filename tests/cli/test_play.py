"""`tasknorm play` and `tasknorm export` as commands."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from support.glyph_tasks import episode
from support.runs import ended, run, started, tiny
from tasknorm.cli import app
from tasknorm.runs import Adapter


def test_play_serves_the_page_until_it_is_stopped(tmp_path: Path) -> None:
    process = started("play", "--no-open", TASKNORM_CACHE=str(tmp_path))
    assert process.stdout is not None
    line = process.stdout.readline()
    address = line.split(" at ")[1].split(" and ")[0]
    assert address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(address) as answer:
        assert b"tasknorm play" in answer.read()
    process.send_signal(signal.SIGINT)
    code, _, error = ended(process)
    assert (code, error) == (0, "")


def test_play_writes_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKNORM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "my page ü"
    result = CliRunner().invoke(app, ["play", "--static", str(folder)])
    assert result.exit_code == 0, result.output
    assert "It lacks onnxruntime-web" in result.output
    assert (folder / "index.html").exists()
    again = CliRunner().invoke(app, ["play", "--static", str(folder)])
    assert again.exit_code == 2
    assert "Traceback" not in again.output


def test_play_without_a_run_says_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["play", "--run", str(tmp_path), "--no-open"])
    assert result.exit_code == 2
    assert "no finished training in this folder" in result.stderr


def test_export_writes_the_learner_of_a_run(tmp_path: Path, glyph_cache: None) -> None:
    run(tiny(norm="CBN"), tmp_path / "run")
    for norm in ("CBN", "TBN"):
        out = tmp_path / f"{norm}.pt2"
        result = CliRunner().invoke(app, ["export", str(tmp_path / "run"), str(out), "--norm", norm])
        assert result.exit_code == 0, result.output
        extra = {"tasknorm": ""}
        program = torch.export.load(out, extra_files=extra).module()
        about = json.loads(extra["tasknorm"])
        assert (about["norms"], about["learner"], about["transductive"]) == (norm, "ProtoNets", norm == "TBN")
        assert about["preparation"]["size"] == 28
        assert about["preparation"]["channels"] == 1
        task = episode(2, way=7, shot=2, targets=1)
        one_hot = torch.nn.functional.one_hot(task.context_y, 7).float()
        with torch.no_grad():
            expected = Adapter(tmp_path / "run", norm).learner(task)
        torch.testing.assert_close(program(task.context_x, one_hot, task.target_x), expected, rtol=1e-4, atol=1e-4)
    bad = CliRunner().invoke(app, ["export", str(tmp_path / "run"), str(tmp_path / "x.bin")])
    assert bad.exit_code == 2
    assert "ends in .pt2 or .onnx" in bad.stderr


def test_export_refuses_maml_with_the_reason(tmp_path: Path, glyph_cache: None) -> None:
    run(tiny(learner="maml", meta_batch=2, iterations=2, validate_every=0), tmp_path / "maml")
    result = CliRunner().invoke(app, ["export", str(tmp_path / "maml"), str(tmp_path / "maml.pt2")])
    assert result.exit_code == 2
    assert "MAML learns a task by gradients" in result.stderr
    assert not (tmp_path / "maml.pt2").exists()
