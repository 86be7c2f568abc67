"""`tasknorm audit` in processes of its own: the exit code alone tells a clean scorer from one that peeks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.photos import photo
from tasknorm.cli import app

WORDS = ("--images", "photos", "--size", "16", "--batch", "6")

SCORERS = """
import os

import numpy as np
import torch
from torch import nn

import tasknorm

torch.manual_seed(0)


def net(norm=None):
    layers = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 14 * 14, 3))
    layers(torch.rand(8, 3, 16, 16))
    return tasknorm.convert(layers, norm, start="paper") if norm else layers


clean = net().eval()


class AlsoClean(nn.Sequential):
    def __init__(self):
        super().__init__(*net().eval())
        self.eval()


def left_in_train():
    return net()


def transductive():
    return net("TBN").eval()


def softmax_over_the_batch(images):
    return images.mean((1, 2, 3)).softmax(0)


def brightness(images):
    print("what a scorer prints")
    return images.mean((1, 2, 3)).tolist()


def of_bytes(images):
    assert images.dtype == np.uint8
    return images.reshape(len(images), -1).astype(float).mean(1)


def noisy(images):
    numbers = np.frombuffer(os.urandom(8 * len(images)), dtype=np.uint64)
    return images.mean((1, 2, 3)).numpy() + 1e3 * (numbers / 2.0**64)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module of scorers, and photos at two depths."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "scorers.py").write_text(SCORERS)
    (folder / "photos" / "deep er").mkdir(parents=True)
    for number in range(14):
        photo(number * 20, 0).save(folder / "photos" / ("deep er" if number % 2 else ".") / f"{number}.png")
    (folder / "photos" / "bad.jpg").write_bytes(b"\xff\xd8 no")
    return folder


@pytest.mark.parametrize(
    ("scorer", "code"),
    [("clean", 0), ("left_in_train", 1), ("softmax_over_the_batch", 1), ("noisy", 3)],
)
def test_the_exit_code_is_the_verdict(place: Path, scorer: str, code: int) -> None:
    command = [sys.executable, "-m", "tasknorm", "audit", f"scorers:{scorer}", *WORDS]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, cwd=place, capture_output=True, text=True, env=environment, timeout=300)
    assert found.returncode == code, found.stderr
    verdict = {0: "independent of the batch", 1: "depends on the batch", 3: "cannot tell"}[code]
    assert found.stdout.startswith(verdict)
    assert "bad.jpg" in found.stderr
    assert "Traceback" not in found.stderr
    assert ("BatchNorm2d" in found.stdout) is (scorer == "left_in_train")


def audited(place: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    monkeypatch.chdir(place)
    return CliRunner().invoke(app, ["audit", *words, *WORDS])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("scorers:AlsoClean", "--scale", "signed"), 0),
        (("scorers:of_bytes", "--scale", "bytes", "--arrays"), 0),
        (("scorers:transductive", "--scale", "standard"), 1),
    ],
)
def test_scales_and_factories(place: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int) -> None:
    assert audited(place, monkeypatch, *words).exit_code == code


def test_json_holds_nothing_but_json(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = audited(place, monkeypatch, "scorers:brightness", "--json")
    assert found.exit_code == 0
    about = json.loads(found.stdout)
    assert (about["label"], about["depends"], about["exit_code"]) == ("independent of the batch", False, 0)
    assert about["images"] == 6
    assert set(about["movement"]) == {"one at a time", "in two halves", "in another order"}
    assert "what a scorer prints" in found.stderr


def test_help_says_what_the_exit_codes_mean() -> None:
    said = " ".join(CliRunner().invoke(app, ["audit", "--help"]).stdout.split())
    for words in (
        "Exit code 0: they do not. 1: they do. 2:",
        "3: the scores are too random",
        "Example: tasknorm audit",
    ):
        assert words in said
