"""Scorers that are not few-shot: the audit's verdict, by name and by hand, and what is wrong with bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import tasknorm
from support.photos import photo
from tasknorm import audit_scorer
from tasknorm.cli import app
from tasknorm.errors import SettingsError
from tasknorm.transduction import ScorerError, named_scorer, suspects

IMAGES = torch.rand(9, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def net(norm: str) -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 3))
    layers(IMAGES)
    return tasknorm.convert(layers, norm, start="paper").eval()


class Remembers:
    """Centres scores with all images that it ever saw."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def __call__(self, images: Tensor) -> Tensor:
        self.seen.append(images.mean((1, 2, 3)))
        return self.seen[-1] - torch.cat(self.seen).mean()


def largest_subtracted(images: Tensor) -> Tensor:
    """Honest to a softmax, but each score depends on the batch."""
    scores = images.flatten(1)[:, :5]
    return scores - scores.max()


INDEPENDENT = {
    "one score": lambda images: images.mean((1, 2, 3)),
    "negative scores": lambda images: -1e6 - images.mean((1, 2, 3)),
    "labels": lambda images: images.flatten(1)[:, :4].argmax(1),
    "maps": lambda images: images.cumsum(3),
    "half precision": lambda images: images.bfloat16().mean((2, 3)),
    "lists": lambda images: images.mean((2, 3)).tolist(),
    "a class ruled out": lambda images: images.mean((2, 3)).masked_fill(torch.tensor([True, False, False]), -torch.inf),
    "constant": lambda images: torch.zeros(len(images)),
    "batch norm in eval": net("CBN"),
    "instance norm": net("IN"),
}
DEPENDING = {
    "softmax over the batch": lambda images: images.mean((1, 2, 3)).softmax(0),
    "ranks": lambda images: images.mean((1, 2, 3)).argsort().argsort(),
    "the largest is subtracted": largest_subtracted,
    "divided by the largest": lambda images: images.mean((1, 2, 3)) / images.mean((1, 2, 3)).max(),
    "the place in the batch": lambda images: images.mean((1, 2, 3)) + torch.arange(len(images)),
    "memory": Remembers(),
    "transductive batch norm": net("TBN"),
    "batch norm in train": net("CBN").train(),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_scores_that_are_each_images_own(name: str) -> None:
    found = audit_scorer(INDEPENDENT[name], IMAGES[:6], others=IMAGES[6:])
    assert (found.depends, found.random) == (False, False), found


@pytest.mark.parametrize("name", DEPENDING)
def test_scores_that_depend_on_the_batch(name: str) -> None:
    found = audit_scorer(DEPENDING[name], IMAGES[:6], others=IMAGES[6:])
    assert found.depends is True, found
    assert "target" not in str(found)


def test_two_images_and_arrays_will_do() -> None:
    assert audit_scorer(lambda images: images.mean((1, 2, 3)), IMAGES[:2], arrays=True).depends is False
    assert audit_scorer(lambda images: images - images.mean(0), IMAGES[:2], arrays=True).depends is True


def test_random_scores_of_their_own() -> None:
    found = audit_scorer(lambda images: images.mean((1, 2, 3)) + 1e-3 * torch.rand(len(images)), IMAGES[:6])
    assert found.label == "independent of the batch, random"


def test_a_fixed_batch_size_is_asked_at_that_size() -> None:
    def of_six(images: Tensor) -> Tensor:
        if len(images) != 6:
            raise RuntimeError("six only")
        return images.mean((1, 2, 3)) - images.mean()

    assert audit_scorer(of_six, IMAGES[:6]).depends is True
    with pytest.raises(ScorerError, match=r"RuntimeError in .*test_scorers.py, line \d+ for a batch of shape \(1, 3"):
        audit_scorer(of_six, IMAGES[:5])


@pytest.mark.parametrize(
    ("score", "error", "message"),
    [
        (lambda images: images.mean(), ValueError, r"one row for each image"),
        (lambda images: images[:1, 0, 0], ValueError, r"got scores of shape \(1, 8\) for a batch of shape \(6, 3"),
        (lambda images: images.mean((1, 2, 3)) * torch.nan, ValueError, "finite"),
        (lambda images: {"scores": 1}, TypeError, "got dict"),
        (lambda images: ["cat"] * len(images), TypeError, "list of numbers"),
        (lambda images: exit(0), ScorerError, "SystemExit"),
    ],
)
def test_what_is_wrong_with_scores_is_said(score, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        audit_scorer(score, IMAGES[:6])


def test_one_image_is_not_enough() -> None:
    with pytest.raises(ValueError, match="at least two images"):
        audit_scorer(lambda images: images, IMAGES[:1])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with photos, from which modules are imported."""
    (tmp_path / "photos").mkdir()
    for number in range(4):
        photo(number * 20, 0).save(tmp_path / "photos" / f"{number}.png")
    (tmp_path / "empty").mkdir()
    (tmp_path / "leaves_at_once.py").write_text("raise SystemExit(0)")
    (tmp_path / "broken_module.py").write_text("def (")
    (tmp_path / "some_scorers.py").write_text(
        "class Given:\n    def __init__(self, weights): pass\n    def score(x): return x.mean((1, 2, 3))\n"
        "def nothing(): return 3\ndef unmade(): raise OSError('no weights')\n"
        "def wrong(x): return x.reshape(len(x), 7)\nnumber = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("some_scorers", "package.module:function"),
        ("no_such_module:score", "No module named 'no_such_module'"),
        ("leaves_at_once:score", "SystemExit"),
        ("broken_module:score", "SyntaxError"),
        ("some_scorers:scores", "no such function"),
        ("some_scorers:number", "got 3"),
        ("some_scorers:Given", "name a function"),
        ("some_scorers:nothing", "must make a scorer"),
        ("some_scorers:unmade", "no weights"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(place: Path, name: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        named_scorer(name)


def test_a_name_may_have_dots(place: Path) -> None:
    assert named_scorer("some_scorers:Given.score")(IMAGES).shape == (9,)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("some_scorers:wrong", "--images", "photos"), "wrong: the scorer raised RuntimeError in"),
        (("some_scorers:Given.score", "--images", "empty"), "no images"),
        (("some_scorers:Given.score", "--images", "nowhere"), "no folder"),
        (("some_scorers:Given.score", "--images", "photos", "--scale", "huge"), "--scale"),
        (("some_scorers:Given.score", "--images", "photos", "--channels", "2"), "--channels"),
        (("some_scorers:Given.score", "--images", "photos", "--channels", "1", "--scale", "standard"), "channels=1"),
    ],
)
def test_bad_input_leaves_with_2(place: Path, words: tuple[str, ...], message: str) -> None:
    found = CliRunner().invoke(app, ["audit", *words, "--size", "8"])
    assert found.exit_code == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_suspects_are_named_wherever_the_scorer_keeps_its_network() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))

    def score(images: Tensor) -> Tensor:
        return network(images)

    class Holds:
        def __init__(self) -> None:
            self.network = network

        def score(self, images: Tensor) -> Tensor:
            return self.network(images)

    for scorer in (network, score, Holds().score):
        assert suspects(scorer) == ["1 (BatchNorm2d)"]
    network.eval()
    assert suspects(score) == []
    assert suspects(net("TBN")) == ["1 (TBN)"]
    assert suspects(len) == []
