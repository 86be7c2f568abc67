"""Bad images and small classes: they stop a run by name, or are left out, listed and recorded."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from support.data_files import encoded, noise, write_pets
from support.runs import flags, tiny
from support.runs import run as run_experiment
from tasknorm.cli import app
from tasknorm.compare import comparing
from tasknorm.data import DataError
from tasknorm.runs import parts
from tasknorm.runs.parts import task_of
from tasknorm.settings import PretrainSettings


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Twenty classes of six images; one image is bad, and one class has a single image."""
    monkeypatch.setenv("TASKNORM_CACHE", str(tmp_path / "cache"))
    write_pets(tmp_path / "photos", classes=20, images=6)
    (tmp_path / "photos" / "pet03" / "2.png").write_bytes(b"cut")
    for number in range(1, 6):
        (tmp_path / "photos" / "pet04" / f"{number}.png").unlink()
    return tmp_path / "photos"


def settings(photos, **changes):
    question = {"source": f"folder:{photos}", "image_size": 16, "way": 3, "train_way": 3, "iterations": 4}
    return tiny(**question, validate_every=2, checkpoint_every=2, **changes)


def mend(photos):
    for number in range(1, 6):
        (photos / "pet04" / f"{number}.png").write_bytes(encoded(noise(number, 9, 9, 3)))


def test_a_small_class_stops_a_run_by_its_name_with_the_flag(photos, tmp_path):
    result = run("train", *flags(settings(photos)), "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert result.stderr == (
        "tasknorm: photos: class 'pet04' of the train split has 1 image, and a task needs 3 (1 shot and 2 targets); "
        "add images, ask for smaller tasks, or leave such classes out: --skip-bad\n"
    )
    assert not (tmp_path / "cache").exists()  # said before the long work


def test_a_bad_image_stops_a_run_by_its_name_with_the_flag(photos, tmp_path):
    mend(photos)
    result = run("train", *flags(settings(photos)), "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "pet03/2.png: the image does not decode" in result.stderr
    assert result.stderr.endswith("or leave out all images that cannot be read: --skip-bad\n")


def test_a_small_test_class_is_named_before_the_training(photos, tmp_path):
    mend(photos)
    (photos / "pet03" / "2.png").unlink()
    for number in range(1, 6):
        (photos / "pet17" / f"{number}.png").unlink()
    result = run("train", *flags(settings(photos)), "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "class 'pet17' of the test split has 1 image" in result.stderr
    assert not (tmp_path / "run").exists()


def test_they_are_left_out_listed_and_recorded(photos, tmp_path):
    result = run("train", *flags(settings(photos, skip_bad=True)), "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert "left out: 1 image and 1 class\n" in result.stderr
    assert f"left out: {photos}/pet03/2.png: the image does not decode" in result.stderr
    assert "left out: photos: class 'pet04' of the train split has 1 image" in result.stderr
    recorded = json.loads((tmp_path / "run" / "result.json").read_text())["left_out"]
    assert [(row["class_name"], row["image"]) for row in recorded] == [("pet03", 2), ("pet04", None)]
    assert recorded == json.loads((tmp_path / "run" / "left_out.json").read_text())
    assert json.loads((tmp_path / "run" / "config.json").read_text())["skip_bad"] is True
    result = run("evaluate", tmp_path / "run", "--tasks", "3")
    assert result.exit_code == 0, result.stderr


def test_a_run_that_leaves_nothing_out_says_so(photos, tmp_path):
    mend(photos)
    (photos / "pet03" / "2.png").unlink()
    result = run_experiment(settings(photos, skip_bad=True, test_tasks=0), tmp_path / "run")
    assert result["left_out"] == []
    assert "left_out" not in run_experiment(settings(photos, test_tasks=0), tmp_path / "plain")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "plain")]
    assert weights[0] == weights[1]  # the same tasks as without the flag


def test_a_resumed_run_leaves_out_the_same_or_stops(photos, tmp_path):
    chosen = settings(photos, skip_bad=True, test_tasks=0)
    run_experiment(chosen.model_copy(update={"iterations": 2}), tmp_path / "run")
    run_experiment(chosen, tmp_path / "run")
    run_experiment(chosen, tmp_path / "through")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "through")]
    assert weights[0] == weights[1]
    mend(photos)
    parts._opened.cache_clear()  # as in another process
    result = run("train", "--out", tmp_path / "run", "--resume", "--iterations", 6)
    assert result.exit_code == 2
    assert "began with other images: class 'pet04' of" in result.stderr
    assert "was left out then (1 such changes); restore the images, or begin a new run" in result.stderr


def test_pretraining_leaves_bad_images_out(photos, tmp_path, capsys):
    chosen = {"source": str(photos), "net": "resnet-small", "image_size": 16, "epochs": 1, "batch": 32, "device": "cpu"}
    with pytest.raises(DataError, match=r"pet03/2.png: .*--skip-bad"):
        run_experiment(PretrainSettings.of(chosen), tmp_path / "stopped")
    record = run_experiment(PretrainSettings.of(chosen | {"skip_bad": True}), tmp_path / "pretraining")
    assert [row["class_name"] for row in record["left_out"]] == ["pet03"]
    assert "left out: 1 image and 0 classes" in capsys.readouterr().err


def test_compare_leaves_them_out_of_every_training(photos, tmp_path, monkeypatch):
    words = ["--source", f"folder:{photos}", "--way", 3, "--norms", "LN", "--iterations", 2, "--tasks", 2]
    result = run("compare", *words, "--out", tmp_path / "stopped")
    assert result.exit_code == 2
    assert "class 'pet04' of the train split has 1 image" in result.stderr
    asked = []

    def nothing(runs, engine, update, more):
        asked.extend(more())
        return {"LN": "not run here"}

    monkeypatch.setattr(comparing, "do_runs", nothing)
    result = run("compare", *words, "--learner", "cnaps", "--skip-bad", "--out", tmp_path / "compared")
    assert "left out: 1 image and 2 classes" in result.stderr  # a task needs six: pet03 has five that are good
    names = [("seed0/cnaps-pretraining", True), ("seed0/cnaps-LN", True)]
    assert [(each.name, each.settings.skip_bad) for each in asked] == names


def test_import_writes_records_without_bad_images(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("TASKNORM_DATA", str(tmp_path / "data"))
    result = run("data", "import", photos, "--as", "mine", "--records")
    assert result.exit_code == 2
    assert "pet03/2.png" in result.stderr
    assert "--skip-bad" in result.stderr
    result = run("data", "import", photos, "--as", "mine", "--skip-bad")
    assert result.exit_code == 2
    assert "a copy keeps them; import with --records as well" in result.stderr
    result = run("data", "import", photos, "--as", "mine", "--records", "--skip-bad")
    assert result.exit_code == 0, result.stderr
    assert "left out: 1 image and 0 classes" in result.stderr
    assert "train: 10 classes, 54 images" in result.stdout
    assert run("data", "check", "mine").exit_code == 0


def test_data_sample_names_a_small_class(photos):
    result = run("data", "sample", photos, "--way", 3, "--targets", 2)
    assert result.exit_code == 2
    assert "class 'pet04' of the train split has 1 image" in result.stderr
    assert run("data", "sample", photos, "--way", 3, "--targets", 2, "--episodes", 9, "--skip-bad").exit_code == 0


def test_tasks_of_varying_way_leave_small_classes_out_too(photos):
    variable = {"sampling": "variable", "max_way": 5, "max_context": 20, "filters": None}
    assert task_of(settings(photos, skip_bad=True, **variable), "train")(0).way == 5
    with pytest.raises(DataError, match=r"class 'pet04' of the train split has 1 image, and a task needs 2"):
        task_of(settings(photos, **variable), "train")
