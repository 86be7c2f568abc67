"""Runs on photos: cut to squares wherever they are seen, and augmented in training alone."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from support.photos import write_photos
from support.runs import ended, flags, run, started, tiny, wait_for_lines
from tasknorm.data import AUGMENTATIONS, SCALINGS, Episodes
from tasknorm.episode import Episode
from tasknorm.learners import Predictor
from tasknorm.runs import adapted
from tasknorm.runs.parts import images_of, opened_once, sampler_of, task_of
from tasknorm.settings import Settings

SIZE = 20


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifteen classes of six photos, wider than high."""
    folder = tmp_path_factory.mktemp("images") / "photos"
    write_photos(folder, {f"class {c:02}": 20 * c for c in range(15)}, 6)
    names = sorted(path.name for path in folder.iterdir())
    splits = {"train": names[:5], "valid": names[5:10], "test": names[10:]}
    folder.with_name("photos.splits.json").write_text(json.dumps(splits))
    return folder


def settings_of(photos: Path, **changes: object) -> Settings:
    options = {
        "source": f"folder:{photos}",
        "image_size": SIZE,
        "train_way": 3,
        "way": 3,
        "shot": 2,
        "scale": "centred",
    }
    return tiny(**options | {"iterations": 4, "validate_every": 2, "checkpoint_every": 1} | changes)


def same(one: Episode, other: Episode) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in vars(one))


@pytest.mark.parametrize("sampling", ["fixed", "variable"])
def test_training_tasks_alone_are_augmented(photos: Path, sampling: str) -> None:
    few = {"max_way": 5, "max_context": 10, "test_max_way": 5, "test_max_context": 10, "net": "protonets-conv4"}
    plain, augmented = (settings_of(photos, sampling=sampling, augment=a, **few) for a in (None, "flip, colour,crop"))
    for split in ("valid", "test"):
        assert all(same(task_of(plain, split)(number), task_of(augmented, split)(number)) for number in range(3))
    for number in range(3):
        before, after = task_of(plain, "train")(number), task_of(augmented, "train")(number)
        assert torch.equal(before.target_y, after.target_y)
        assert not any(torch.equal(a, b) for a, b in zip(before.target_x, after.target_x, strict=True))
        assert not any(torch.equal(a, b) for a, b in zip(before.context_x, after.context_x, strict=True))
        assert after.target_x.abs().max() <= 1  # (x - 127) / 128 of bytes
        assert same(after, task_of(augmented, "train")(number))


def test_an_augmented_run_that_was_killed_equals_one_that_ran_through(photos: Path, tmp_path: Path) -> None:
    changes = {"resize": "crop", "iterations": 20, "checkpoint_every": 3, "validate_every": 10, "test_tasks": 0}
    settings = settings_of(photos, augment=",".join(AUGMENTATIONS), workers=2, **changes)
    run(settings, tmp_path / "through")
    folder = tmp_path / "killed"
    process = started("train", *flags(settings), "--out", folder)
    wait_for_lines(folder / "metrics.jsonl", 5, process)
    os.kill(process.pid, signal.SIGKILL)
    assert ended(process)[0] == -signal.SIGKILL
    assert not (folder / "model.safetensors").exists()
    run(settings.model_copy(update={"workers": 0}), folder)
    for name in ("model.safetensors", "best.safetensors"):
        assert (folder / name).read_bytes() == (tmp_path / "through" / name).read_bytes()


def test_a_predictor_prepares_photos_as_the_run_its_test_images(photos: Path, tmp_path: Path) -> None:
    """A photo's file, and the same photo in a test task drawn from the cache: to the last bit, and in its logits."""
    settings = settings_of(photos, resize="crop")
    run(settings, tmp_path / "run")
    source = opened_once(settings.source)
    images = images_of(source, SIZE, 3, "crop")
    task = Episodes(images, sampler_of(settings, source.spec, "test"))[0]
    drawn = sampler_of(settings, source.spec, "test").draw(0, 0)

    def files(numbers: tuple[np.ndarray, ...]) -> list[list[Path]]:
        pairs = zip(drawn.classes.tolist(), numbers, strict=True)
        return [[Path(source.where(class_id, n)) for n in chosen.tolist()] for class_id, chosen in pairs]

    context = {f"class {label}": chosen for label, chosen in enumerate(files(drawn.context))}
    adapted(tmp_path / "run", context).save(tmp_path / "p.safetensors")
    predictor = Predictor.load(tmp_path / "p.safetensors")
    assert (predictor.preparation.resize, predictor.preparation.scale) == ("crop", "centred")
    targets = [path for chosen in files(drawn.target) for path in chosen]
    assert torch.equal(predictor.preparation.pixels(targets), task.target_x)
    assert torch.equal(task_of(settings, "test", settings.test_seed)(0).target_x, SCALINGS["centred"](task.target_x))
    answers = predictor.classify(targets, none_below=0)
    logits = predictor(SCALINGS["centred"](task.target_x))
    assert [answer.name for answer in answers] == [predictor.names[i] for i in logits.argmax(1).tolist()]
    stretched = images_of(source, SIZE, 3)
    assert not np.array_equal(stretched.batch(np.array([0]), np.array([0])), images.batch(np.array([0]), np.array([0])))


def test_a_run_of_an_earlier_version_goes_on(photos: Path, tmp_path: Path) -> None:
    """Its config.json knows neither `resize` nor `augment`."""
    settings = settings_of(photos, scale="signed", test_tasks=0)
    run(settings, tmp_path / "old")
    config = json.loads((tmp_path / "old" / "config.json").read_text())
    del config["resize"], config["augment"]
    (tmp_path / "old" / "config.json").write_text(json.dumps(config))
    run(settings.with_length(6), tmp_path / "old")
    run(settings.with_length(6), tmp_path / "new")
    old, new = (tmp_path / name / "model.safetensors" for name in ("old", "new"))
    assert old.read_bytes() == new.read_bytes()
