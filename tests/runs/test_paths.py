"""A run's folder can be used from anywhere: paths in its config file are absolute."""

from __future__ import annotations

import json

import pytest
from PIL import Image
from typer.testing import CliRunner

from support.runs import TINY, tiny
from support.runs import run as done
from tasknorm.cli import app
from tasknorm.runs.paths import with_absolute_paths

pytestmark = pytest.mark.usefixtures("glyph_cache")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with pictures of 12 classes below it, and no data folder."""
    monkeypatch.setenv("TASKNORM_DATA", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for number in range(12):
        folder = tmp_path / "here" / "photos" / f"class {number}"
        folder.mkdir(parents=True)
        for image in range(4):
            Image.new("L", (16, 16), 20 * number + image).save(folder / f"{image}.png")
    return tmp_path / "here"


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    return result


def words(source):
    values = TINY | {"learner": "protonets", "source": source, "image_size": 16, "way": 2, "train_way": 2}
    values |= {"iterations": 1, "validate_every": 0, "test_tasks": 1}
    return [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.mark.parametrize("source", ["photos", "folder:photos", "./photos"])
def test_evaluate_and_resume_find_the_data_from_another_folder(here, monkeypatch, source):
    run("train", *words(source), "--out", "runs/first")
    config = json.loads((here / "runs" / "first" / "config.json").read_text())
    assert config["source"] == f"folder:{here / 'photos'}"
    run("train", *words(source), "--out", "runs/first", "--resume")  # the same, however it is written
    monkeypatch.chdir("/")
    out = run("evaluate", here / "runs" / "first", "--tasks", "1").stdout
    assert "final" in out
    run("train", "--out", here / "runs" / "first", "--resume", "--iterations", "2")


def test_pretrained_weights_too(here, monkeypatch):
    run(
        "pretrain", "--source", "photos", "--net", "resnet-small", "--image-size", "16", "--epochs", "1", "--out", "pre"
    )
    assert json.loads((here / "pre" / "config.json").read_text())["source"] == f"folder:{here / 'photos'}"
    weights = "pre/extractor.safetensors"
    values = {"filters": None, "net": "resnet-small", "image_size": 16, "iterations": 0, "validate_every": 0, "way": 2}
    done(tiny(**values, learner="ncm", source="photos", pretrained=weights), here / "run")
    config = json.loads((here / "run" / "config.json").read_text())
    assert config["pretrained"] == str(here / weights)
    monkeypatch.chdir("/")
    run("evaluate", here / "run", "--tasks", "1")


def test_names_of_data_sets_and_absolute_paths_stay(here):
    (here / "glyphs").mkdir()
    (here.parent / "data" / "birds").mkdir(parents=True)
    (here / "birds").mkdir()
    for source in ("glyphs", "birds", "omniglot", "/somewhere/photos", "folder:/somewhere/photos", "nowhere"):
        assert with_absolute_paths({"source": source, "way": 5}) == {"source": source, "way": 5}
    mixed = with_absolute_paths({"source": ["photos", "glyphs"], "test_sources": "glyphs, photos", "pretrained": None})
    there = f"folder:{here / 'photos'}"
    assert mixed == {"source": [there, "glyphs"], "test_sources": f"glyphs,{there}", "pretrained": None}
