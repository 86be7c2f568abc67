"""NCM: no meta-training, and the same commands as every other learner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from support.glyph_tasks import episode
from support.runs import run
from support.small_learners import fresh
from tasknorm.cli import app
from tasknorm.learners import LEARNERS, NCM
from tasknorm.runs import read_record
from tasknorm.runs.meta_test import loaded
from tasknorm.settings import PretrainSettings, Settings

pytestmark = pytest.mark.usefixtures("glyph_cache")

PRETRAINING = {"source": "glyphs", "net": "resnet-small", "image_size": 16, "epochs": 1, "batch": 64, "flip": False}


@pytest.fixture(scope="module")
def extractor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretraining")
    run(PretrainSettings.of(PRETRAINING | {"device": "cpu"}), folder / "run")
    return folder / "run" / "extractor.safetensors"


def verb(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_target_goes_to_the_nearest_class_mean() -> None:
    model = fresh("ncm", "LN").eval()
    task = episode(3, shot=3)
    features = model.net(torch.cat([task.context_x, task.target_x])).double()  # LN: no set matters
    context, targets = features[: len(task.context_y)], features[len(task.context_y) :]
    means = torch.stack([context[task.context_y == label].mean(0) for label in range(task.way)])
    expected = torch.cdist(targets, means).argmin(1)
    assert torch.equal(model(task).argmax(1), expected)


def test_trained_evaluated_compared_and_exported_by_the_same_commands(extractor: Path, tmp_path: Path) -> None:
    words = ["--learner", "ncm", "--image-size", 16, "--pretrained", extractor, "--test-tasks", 5, "--device", "cpu"]
    out = verb("train", *words, "--norm", "CBN", "--out", tmp_path / "ncm")
    assert "final CBN         glyphs 5-way 1-shot" in out
    assert "best" not in out  # nothing was validated
    assert "final TBN" in verb("evaluate", tmp_path / "ncm", "--norm", "TBN", "--tasks", 3)
    record = read_record(tmp_path / "ncm")
    assert record.settings.iterations == 0
    assert {result.weights for result in record.chosen()} == {"final"}
    assert record.results[0].accuracy.mean > 0.3  # chance is 0.2
    verb("report", tmp_path, "--out", tmp_path / "report")
    assert "NCM" in (tmp_path / "report" / "report.md").read_text()
    assert "finished already" in CliRunner().invoke(app, ["train", "--out", str(tmp_path / "ncm"), "--resume"]).stderr

    learner = loaded(record.settings, tmp_path / "ncm" / "model.safetensors", "CBN")
    assert isinstance(learner, NCM)
    task = episode(1, split="test")
    shrunk = (
        torch.nn.functional.interpolate(task.context_x, size=16),
        torch.nn.functional.interpolate(task.target_x, 16),
    )
    predictor = learner.adapt(shrunk[0], task.context_y)
    predictor.export(tmp_path / "ncm.pt2", shrunk[1])
    assert torch.export.load(tmp_path / "ncm.pt2").module()(shrunk[1]).shape == (15, 5)


def test_compared_after_a_pretraining_of_its_own(tmp_path: Path) -> None:
    words = ["--learner", "ncm", "--norms", "CBN,TBN,MetaBN", "--tasks", 4, "--seeds", 1]
    out = verb("compare", *words, "--out", tmp_path / "c")
    assert "NCM on glyphs, 5-way 1-shot" in out
    assert (tmp_path / "c" / "report.html").is_file()
    assert json.loads((tmp_path / "c" / "seed0" / "ncm-CBN" / "config.json").read_text())["iterations"] == 0


def test_the_papers_settings_have_no_iterations() -> None:
    assert Settings.of({"learner": "ncm", "pretrained": "x"}).iterations == 0
    assert not LEARNERS["ncm"].meta_trained
