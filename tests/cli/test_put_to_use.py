"""The practitioner's story of the page on photos, from photos to ONNX in another process."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.photos import write_photos
from tasknorm.data import opened
from tasknorm.runs.meta_test import settings_of
from tasknorm.runs.parts import sampler_of
from tasknorm.training import RunFolder

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "photos.md"
# What makes the page's training small, and lets `evaluate` test it on the new classes.
SMALL = "--image-size 32 --filters 16 --iterations 40 --train-targets 5 --targets 5 --validate-every 20"
SMALL += " --validation-tasks 20 --scale unit --test-sources folder:all_birds"
IMAGES = 12  # of each class

# A program of somebody else: it knows the file, numpy, Pillow and onnxruntime.
ELSEWHERE = """
import json, sys
import numpy as np, onnxruntime
from PIL import Image

session = onnxruntime.InferenceSession("birds.onnx")
about = json.loads(session.get_modelmeta().custom_metadata_map["tasknorm"])
prepared = about["preparation"]
assert (prepared["resize"], prepared["scale"], prepared["channels"]) == ("antialiased", "unit", 3)
answers = []
for path in sys.argv[1:]:
    image = Image.open(path).convert("RGB").resize((prepared["size"],) * 2, Image.Resampling.BILINEAR)
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1)[None] / 255
    (logits,) = session.run(None, {"images": pixels})
    powers = np.exp((logits[0] - logits[0].max()).astype(np.float64) / about["temperature"])
    answers.append(dict(zip(about["names"], (powers / powers.sum()).tolist())))
assert not {"torch", "tasknorm"} & set(sys.modules)
print(json.dumps(answers))
"""


def glyph_photos(folder: Path, _: object) -> None:
    """Twelve classes, and four new ones: colour photos of characters."""
    write_photos(folder / "photos", {f"sign {c}": 30 * c for c in range(12)}, IMAGES)
    write_photos(folder / "all_birds", {name: 400 + 25 * c for c, name in enumerate(BIRDS)}, IMAGES)


def flowers(folder: Path, request: pytest.FixtureRequest) -> None:
    """Twelve classes, and four new ones, of real photos."""
    with zipfile.ZipFile(request.getfixturevalue("data_root") / "vgg_flower_64px.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))
        classes = sorted({name.split("/")[-2] for name in names})
        for number, kind in enumerate(classes[::6][:16]):
            place = folder / ("photos" if number < 12 else "all_birds") / (kind if number < 12 else BIRDS[number - 12])
            place.mkdir(parents=True)
            for image, name in enumerate([name for name in names if name.split("/")[-2] == kind][:IMAGES]):
                (place / f"{image:02}.jpg").write_bytes(archive.read(name))


BIRDS = ("great tit", "grèbe", "kiwi", "wren")


def lines(language: str) -> list[str]:
    section = PAGE.read_text().split("## In short")[1].split("\n## ")[0]
    return re.search(rf"```{language} .*?\n(.*?)```", section, re.DOTALL)[1].strip().splitlines()


@pytest.fixture(params=[glyph_photos, pytest.param(flowers, marks=pytest.mark.realdata)], ids=["glyphs", "flowers"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the photos, in which the commands are given."""
    request.param(tmp_path, request)
    names = sorted(path.name for path in (tmp_path / "photos").iterdir())
    splits = {"photos": {"train": names[:8], "valid": names[8:]}, "all_birds": {"test": list(BIRDS)}}
    (tmp_path / "splits.json").write_text(json.dumps(splits))
    monkeypatch.setenv("TASKNORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(command: str) -> str:
    """What a command prints."""
    variables = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=variables, check=False)
    assert found.returncode == 0, found.stderr
    assert "Traceback" not in found.stderr
    return found.stdout


def first_test_task(place: Path) -> None:
    """The images of `evaluate`'s first task: its context in `birds`, its targets in `new`, named by their class."""
    settings = settings_of(RunFolder(place / "runs/photos"))
    source = opened(settings.test_sources)
    draw = sampler_of(settings, source.spec, "test").draw(0, 0)
    for class_id, context, target in zip(draw.classes, draw.context, draw.target, strict=True):
        name = source.spec.class_names[class_id]
        for folder, numbers in ((place / "birds" / name, context), (place / "new", target)):
            folder.mkdir(parents=True, exist_ok=True)
            for number in numbers:
                file = Path(source.where(class_id, number))
                shutil.copy(file, folder / f"{name}-{file.stem}{file.suffix}")


def test_the_story(place: Path) -> None:
    train, adapt, predict, export = (line.split("  #")[0] for line in lines("sh"))
    assert len(lines("sh") + lines("python")) == 6
    told(f"{train} {SMALL}")
    first_test_task(place)
    said = told(adapt)
    assert "4 classes: great tit (5), grèbe (5), kiwi (5), wren (5); non-transductive" in said
    assert "calibrated on 20 4-way 5-shot validation tasks" in said
    predict = predict.replace("*.jpg", "*.*")  # the made-up photos are PNG too
    rows = [line.split("\t") for line in told(predict).splitlines()]
    assert len(rows) == 20
    assert {row[1] for row in rows} <= {*BIRDS, "none of these"}

    found = json.loads(told(f"{predict} --json --never-none"))
    assert found["label"] == "non-transductive"
    right = [Path(row["image"]).name.startswith(row["name"]) for row in found["answers"]]
    tests = json.loads(told("tasknorm evaluate runs/photos --tasks 1 --targets example,all --json"))
    for row in tests:
        if row["weights"] == "best":
            assert sum(right) / 20 == pytest.approx(row["accuracy"], abs=1e-9)
    assert sum(right) > 5  # chance

    assert told(export).strip() == "birds.onnx"
    paths = [row["image"] for row in found["answers"]]
    (place / "elsewhere.py").write_text(ELSEWHERE)
    elsewhere = json.loads(told(shlex.join([sys.executable, "elsewhere.py", *paths])))
    for theirs, ours in zip(elsewhere, found["answers"], strict=True):
        assert theirs == pytest.approx(ours["probabilities"], abs=1e-3)

    for number, file in enumerate(sorted((place / "photos").glob("*/*.jpg"))[:2], 1):
        shutil.copy(file, place / f"heron{number}.jpg")
    shutil.copy(place / "heron1.jpg", place / "new/1.jpg")
    code = "\n".join(["from tasknorm.learners import Predictor", *lines("python"), "print(predictor.names)"])
    assert told(shlex.join([sys.executable, "-c", code])).strip().endswith("'wren', 'heron')")
