"""The commands adapt, predict and export: what users type, and what they see when it goes wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image, ImageOps
from typer.testing import CliRunner

from support.photos import photo, write_photos
from support.runs import run as run_experiment
from support.runs import tiny
from tasknorm import NORMS
from tasknorm.cli import app
from tasknorm.data import Preparation, opened
from tasknorm.learners import Calibration, Predictor, ProtoNets
from tasknorm.nets import protonets_conv4

CLASSES = {"a b": 3, "Öl/📷": 90, "..": 200}


def run(*words: object, input: str | bytes | None = None):
    return CliRunner().invoke(app, [str(word) for word in words], input=input)


def failed(result, *parts: str) -> None:
    assert result.exit_code == 2
    assert result.stderr.startswith("tasknorm: ")
    assert result.stderr.count("\n") == 1  # one message, no traceback
    for part in parts:
        assert part in result.stderr


def predictor(norm: str = "LN") -> Predictor:
    torch.manual_seed(0)
    learner = ProtoNets(protonets_conv4(NORMS[norm], filters=6, image_shape=(3, 24, 24))).eval()
    found = learner.adapt_to(
        {name: [photo(number, 0)] for name, number in CLASSES.items()}, Preparation(size=24, channels=3)
    )
    found.calibration = Calibration(temperature=2.0, threshold=0.45, tasks=10, way=5, shot=1)
    return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `p.safetensors` and three photos in `new`."""
    predictor().save(tmp_path / "p.safetensors")
    (tmp_path / "new" / "deep er").mkdir(parents=True)
    photo(3, 1).save(tmp_path / "new" / "1.jpg")
    photo(90, 1).save(tmp_path / "new" / "deep er" / "zwei ü.png")
    photo(200, 1).save(tmp_path / "new" / "📷.webp")
    (tmp_path / "new" / "notes.txt").write_text("no image")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_help_ends_with_an_example() -> None:
    for verb in ("adapt", "predict", "export"):
        assert f"Example: tasknorm {verb}" in " ".join(run(verb, "--help").stdout.split())


class TestPredict:
    def test_lines_with_tabs_where_nobody_looks(self, place: Path) -> None:
        result = run("predict", "p.safetensors", "new")
        assert result.exit_code == 0
        assert result.stderr == ""
        rows = [line.split("\t") for line in result.stdout.splitlines()]
        assert [row[0] for row in rows] == ["new/1.jpg", "new/deep er/zwei ü.png", "new/📷.webp"]
        expected = Predictor.load("p.safetensors").classify([row[0] for row in rows])
        assert [(row[1], row[2]) for row in rows] == [(a.name, f"{a.probability:.4f}") for a in expected]

    def test_a_table_on_a_terminal(self, place: Path) -> None:
        us, them = pty.openpty()
        environment = os.environ | {"COLUMNS": "100", "TERM": "xterm"}
        command = [sys.executable, "-m", "tasknorm", "predict", "p.safetensors", "new"]
        subprocess.run(command, stdout=them, check=True, env=environment)
        os.close(them)
        shown = os.read(us, 100_000).decode()
        os.close(us)
        assert "probability" in shown
        assert "new/deep er/zwei ü.png" in shown
        assert "3 classes, non-transductive" in shown

    def test_csv(self, place: Path) -> None:
        rows = list(csv.DictReader(io.StringIO(run("predict", "p.safetensors", "new", "--csv").stdout)))
        assert len(rows) == 3
        for row in rows:
            assert sum(float(row[name]) for name in CLASSES) == pytest.approx(1, abs=1e-5)
            assert float(row["probability"]) == max(float(row[name]) for name in CLASSES)

    def test_json(self, place: Path) -> None:
        found = json.loads(run("predict", "p.safetensors", "new", "--json").stdout)
        assert (found["label"], found["together"], found["unreadable"]) == ("non-transductive", False, [])
        assert set(found["answers"][0]["probabilities"]) == set(CLASSES)

    def test_files_folders_patterns_and_a_list(self, place: Path) -> None:
        names = ["new/1.jpg", "new/deep er/zwei ü.png", "new/📷.webp"]
        for words, listing in (
            (names, None),
            (["new/**/*.[jpw]*"], None),
            (["new/1.jpg", "new/deep er", "new/📷.webp"], None),
            (["-"], "\n".join(names)),
            (["-"], "\r\n".join(names) + "\r\n\n"),
        ):
            result = run("predict", "p.safetensors", *words, input=listing)
            assert sorted(line.split("\t")[0] for line in result.stdout.splitlines()) == names, words

    def test_from_another_folder(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (place / "else where").mkdir()
        monkeypatch.chdir(place / "else where")
        assert run("predict", "../p.safetensors", "../new").exit_code == 0

    def test_images_that_cannot_be_read_are_named_and_the_others_answered(self, place: Path) -> None:
        (place / "new" / "bad.jpg").write_bytes(b"\xff\xd8 no")
        (place / "new" / "link.png").symlink_to("nowhere")
        for how in ((), ("--csv",), ("--json",), ("--together",)):
            result = run("predict", "p.safetensors", "new", *how)
            assert result.exit_code == 1
            assert [("bad.jpg" in line, "link.png" in line) for line in result.stderr.splitlines()] == [(1, 0), (0, 1)]
            assert "zwei" in result.stdout
        assert len(json.loads(run("predict", "p.safetensors", "new", "--json").stdout)["unreadable"]) == 2

    def test_names_that_are_no_text(self, place: Path) -> None:
        odd = os.fsdecode(b"new/caf\xe9\n.jpg")
        shutil.copy("new/1.jpg", odd)
        shown = run("predict", "p.safetensors", odd).stdout
        assert shown.count("\n") == 1
        assert shown.startswith("new/caf")
        assert len(list(csv.reader(io.StringIO(run("predict", "p.safetensors", odd, "--csv").stdout)))) == 2
        assert json.loads(run("predict", "p.safetensors", odd, "--json").stdout)["answers"][0]["image"] == odd

    def test_none_of_these(self, place: Path) -> None:
        def names(*words: object) -> set[str]:
            return {line.split("\t")[1] for line in run("predict", "p.safetensors", "new", *words).stdout.splitlines()}

        assert names("--none-below", 1) == {"none of these"}
        assert "none of these" not in names("--never-none")
        assert "none of these" not in names("--none-below", 0)
        assert "none of these" in names()

    def test_a_transductive_predictor_says_what_its_answers_are(self, place: Path) -> None:
        predictor("TBN").save(place / "p.safetensors")
        alone, together = (run("predict", "p.safetensors", "new", "--json", *more) for more in ((), ("--together",)))
        assert "is transductive, and each image was seen alone" in alone.stderr
        assert "is transductive, and all images were seen at once" in together.stderr
        assert json.loads(alone.stdout)["answers"] != json.loads(together.stdout)["answers"]
        one = json.loads(run("predict", "p.safetensors", "new/1.jpg", "--json").stdout)["answers"][0]
        assert one["probabilities"] == pytest.approx(json.loads(alone.stdout)["answers"][0]["probabilities"], abs=1e-6)

    def test_sorting_copies_and_replaces_nothing(self, place: Path) -> None:
        for _ in range(2):
            result = run("predict", "p.safetensors", "new", "new/1.jpg", "--sort", "sorted", "--never-none")
            assert result.exit_code == 0
        copies = [path for path in Path("sorted").rglob("*") if path.is_file()]
        assert len(copies) == 8
        assert {path.relative_to("sorted").parts[0] for path in copies} <= {"a b", "Öl_📷", "_"}
        assert sorted(path.name for path in copies if path.name.startswith("1")) == [
            "1-2.jpg",
            "1-3.jpg",
            "1-4.jpg",
            "1.jpg",
        ]
        assert all(path.read_bytes() == Path("new/1.jpg").read_bytes() for path in copies if path.name.startswith("1"))
        assert len(list(Path("new").rglob("*.*"))) == 4
        assert not [path for path in place.iterdir() if path.name not in ("p.safetensors", "new", "sorted")]

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            (["p.safetensors", "nowhere.jpg"], "nowhere.jpg: there is no file or folder of this name"),
            (["p.safetensors", "empty"], "empty: there are no images in this folder"),
            (["p.safetensors", "-"], "there are no images to classify"),
            (["none.safetensors", "new"], "none.safetensors is not a predictor: there is no such file"),
            (["new/1.jpg", "new"], "new/1.jpg is not a predictor"),
            (
                ["new", "new"],
                "new is a folder, and a predictor is a file; make one from a run's folder",
            ),
        ],
    )
    def test_what_cannot_be(self, place: Path, words: list[str], part: str) -> None:
        (place / "empty").mkdir()
        failed(run("predict", *words, input=""), part)


class TestExport:
    @pytest.mark.parametrize(
        ("name", "norm"), [("o ut.onnx", "TaskNorm-r"), ("o ut.onnx", "TBN"), ("new folder/out.pt2", "TaskNorm-I")]
    )
    def test_names_and_preparation_are_inside(self, place: Path, name: str, norm: str) -> None:
        predictor(norm).save(place / "p.safetensors")
        result = run("export", "p.safetensors", name)
        assert (result.exit_code, result.stdout, result.stderr) == (0, f"{name}\n", "")
        one, x = Predictor.load("p.safetensors"), torch.rand(3, 3, 24, 24)
        if name.endswith(".onnx"):
            from onnxruntime import InferenceSession

            session = InferenceSession(name)
            about = json.loads(session.get_modelmeta().custom_metadata_map["tasknorm"])
            logits = torch.as_tensor(session.run(None, {"images": x.numpy()})[0])
        else:
            extra = {"tasknorm": ""}
            logits = torch.export.load(name, extra_files=extra).module()(x)
            about = json.loads(extra["tasknorm"])
        torch.testing.assert_close(logits, one(x), rtol=1e-4, atol=1e-4)
        assert about["names"] == list(CLASSES)
        assert Preparation.model_validate(about["preparation"]) == one.preparation
        assert (about["temperature"], about["label"]) == (2.0, one.label)
        assert about["threshold"] == one.calibration.threshold_for(3)
        content = Path(name).read_bytes()
        assert str(place).encode() not in content
        assert b"site-packages" not in content

    def test_what_cannot_be(self, place: Path) -> None:
        failed(run("export", "p.safetensors", "out.txt"), "ends in .pt2 or .onnx, got 'out.txt'")
        failed(run("export", "new/1.jpg", "out.onnx"), "is not a predictor")
        assert not list(place.glob("*out*"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and two classes of `signs`."""
    folder = tmp_path_factory.mktemp("finished")
    run_experiment(tiny(norm="CBN", iterations=4, test_tasks=2), folder / "run")
    for name, number in {"x y": 700, "é": 730}.items():
        (folder / "signs" / name).mkdir(parents=True)
        for image in range(3):
            drawing = opened("glyphs").image(number, image)[:, :, 0]
            Image.fromarray(drawing).save(folder / "signs" / name / f"{image}.png")
    return folder


@pytest.mark.usefixtures("glyph_cache")
class TestAdapt:
    def test_adapt_says_what_it_wrote(self, finished: Path, tmp_path: Path) -> None:
        out = tmp_path / "new folder" / "s.safetensors"
        result = run("adapt", finished / "run", "--context", finished / "signs", "--out", out)
        assert result.exit_code == 0, result.stderr
        assert "2 classes: x y (3), é (3); non-transductive" in result.stdout
        assert "calibrated on 4 5-way 1-shot validation tasks" in result.stdout
        assert "for 2 classes, by its odds" in result.stdout
        assert Predictor.load(out).names == ("x y", "é")
        assert run("predict", out, finished / "signs", "--never-none").exit_code == 0

    def test_norm_and_forget(self, finished: Path, tmp_path: Path) -> None:
        words = ["adapt", finished / "run", "--context", finished / "signs", "--out", tmp_path / "s.safetensors"]
        result = run(*words, "--norm", "TBN", "--forget")
        assert "; transductive" in result.stdout
        assert Predictor.load(tmp_path / "s.safetensors").context is None

    def test_black_drawings_on_white(self, finished: Path, tmp_path: Path) -> None:
        """For a run on white drawings on black."""
        for path in (finished / "signs").rglob("*.png"):
            (tmp_path / "dark" / path.parent.name).mkdir(parents=True, exist_ok=True)
            ImageOps.invert(Image.open(path)).save(tmp_path / "dark" / path.parent.name / path.name)
        words = ["adapt", finished / "run", "--out"]
        assert run(*words, tmp_path / "light.safetensors", "--context", finished / "signs").exit_code == 0
        assert run(*words, tmp_path / "dark.safetensors", "--context", tmp_path / "dark", "--invert").exit_code == 0
        light, dark = (Predictor.load(tmp_path / f"{name}.safetensors") for name in ("light", "dark"))
        paths = [path.relative_to(finished / "signs") for path in (finished / "signs").rglob("*.png")]
        assert dark.classify([tmp_path / "dark" / path for path in paths]) == light.classify(
            [finished / "signs" / path for path in paths]
        )

    def test_bad_images(self, finished: Path, tmp_path: Path) -> None:
        shutil.copytree(finished / "signs", tmp_path / "signs")
        (tmp_path / "signs" / "é" / "9.png").write_bytes(b"no")
        words = ["adapt", finished / "run", "--context", tmp_path / "signs", "--out", tmp_path / "s.safetensors"]
        failed(run(*words), "signs/é/9.png: the image does not decode")
        assert not (tmp_path / "s.safetensors").exists()
        result = run(*words, "--skip-bad")
        assert "x y (3), é (3)" in result.stdout
        assert "9.png: the image does not decode" in result.stderr
        for image in (tmp_path / "signs" / "é").glob("[0-8].png"):
            image.write_bytes(b"no")
        result = run(*words, "--skip-bad")
        assert result.exit_code == 2
        assert "class 'é' needs at least one image, got none" in result.stderr

    def test_what_cannot_be(self, finished: Path, tmp_path: Path) -> None:
        out = tmp_path / "s.safetensors"
        write_photos(tmp_path / "one", {"only": 3}, 2)
        (tmp_path / "flat").mkdir()
        photo(3, 0).save(tmp_path / "flat" / "a.png")
        for folder, message in (
            ("one", "at least two classes, got 1"),
            ("flat", "images must lie in one folder per class"),
            ("none", "there is no folder of this name; correct the path"),
        ):
            failed(run("adapt", finished / "run", "--context", tmp_path / folder, "--out", out), message)
        signs = finished / "signs"
        failed(run("adapt", tmp_path, "--context", signs, "--out", out), "no finished training in this folder")
        failed(
            run("adapt", finished / "run", "--context", signs, "--out", tmp_path / "s.pt"), "must end in .safetensors"
        )
        failed(run("adapt", finished / "run", "--context", signs, "--out", out, "--norm", "LN"), "norm=LN contradicts")
