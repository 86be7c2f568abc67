"""The audit labels every norm of the table, and predictors that are none of ours."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tasknorm
from support.random_norm import CHANNELS, random_norm
from tasknorm import NORMS, Episode, audit

WAY = 3


def episode(targets: int = 12, seed: int = 0) -> Episode:
    """Classes that differ in brightness and stripes, so that a few filters can tell them apart."""
    generator = torch.Generator().manual_seed(seed)
    context_y, target_y = torch.arange(9) % WAY, torch.arange(targets) % WAY

    def images(labels: Tensor) -> Tensor:
        stripes = torch.sin(torch.arange(10) * (labels[:, None].float() + 1))[:, None, None, :]
        return stripes * 2 + 0.5 * torch.randn(len(labels), 3, 10, 10, generator=generator)

    return Episode(images(context_y), context_y, images(target_y), target_y)


def prototypes(label: str):
    """A nearest-prototype predictor with this norm inside, at meta-test."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for i, channels in enumerate((3, CHANNELS)):
        layers += [nn.Conv2d(channels, CHANNELS, 3), random_norm(label, seed=i, dtype=torch.float32), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Flatten()).eval()

    def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        with tasknorm.context(net):
            features = net(context_x)
        with tasknorm.target(net):
            targets = net(target_x)
        means = torch.stack([features[context_y == label].mean(0) for label in range(WAY)])
        return -(torch.cdist(targets, means) ** 2)

    return predict


@pytest.mark.parametrize("label", NORMS)
def test_every_norm_inside_a_network_at_meta_test(label: str) -> None:
    result = audit(prototypes(label), episode())
    assert result.transductive is NORMS[label].transductive
    assert result.random is False
    assert result.label == ("transductive" if label == "TBN" else "non-transductive")
    if not result.transductive:
        assert len(set(result.accuracy.values())) == 1


def test_what_peeking_is_worth() -> None:
    result = audit(prototypes("TBN"), episode(30))
    assert result.movement["example"] > 0.01
    assert result.movement["order"] < 1e-4
    assert set(result.accuracy) == {"all", "example", "class", "order"}


def brightness(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    means = torch.stack([context_x[context_y == label].mean(0) for label in range(WAY)])
    return -torch.cdist(target_x.flatten(1), means.flatten(1))


def test_a_predictor_that_is_none_of_ours() -> None:
    assert audit(brightness, episode()).label == "non-transductive"


def test_order_alone_can_give_it_away() -> None:
    def first_comes_first(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        scores = brightness(context_x, context_y, target_x)
        scores[0] *= 1 + 0.1 * (len(scores) > 1)
        return scores

    result = audit(first_comes_first, episode())
    assert result.transductive


def test_a_random_predictor_is_reported_as_such_and_not_as_transductive() -> None:
    generator = torch.Generator().manual_seed(0)

    def noisy(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        return torch.randn(len(target_x), WAY, generator=generator)

    result = audit(noisy, episode(60))
    assert result.random
    assert not result.transductive
    assert result.label == "non-transductive, random"
    assert result.noise > 0.1


def test_rounding_is_not_transduction() -> None:
    def rounded(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        return brightness(context_x, context_y, target_x) * (1 + 1e-6 * len(target_x))

    assert not audit(rounded, episode()).transductive


def test_a_small_dependence_on_the_others_is_found() -> None:
    def nearly(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        scores = brightness(context_x, context_y, target_x)
        return scores + 0.01 * (scores - scores.mean(0))

    assert audit(nearly, episode()).transductive


def test_it_reads_well() -> None:
    text = str(audit(prototypes("TBN"), episode()))
    assert text.splitlines()[0] == "transductive"
    assert [line.split()[0] for line in text.splitlines()[2:6]] == ["all", "example", "class", "order"]
    assert "the same call twice" in text
    assert "calls: the scores of target" in text


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (
            lambda x: torch.zeros(len(x)),
            r"scores of shape \(targets, way\), got \(1,\) for 1 target; if these are labels",
        ),
        (lambda x: torch.zeros(1, WAY), r"got \(1, 3\) for 12 targets"),
        (lambda x: torch.zeros(len(x), 0), r"got \(1, 0\) for 1 target"),
        (
            lambda x: torch.zeros(len(x), 1 + len(x)),
            "as many scores for every batch, got 2 and then 13 for a batch of 12",
        ),
        (lambda x: torch.full((len(x), WAY), float("nan")), "not finite for 1 target"),
        (lambda x: torch.full((len(x), WAY), float("inf")), "not finite for 1 target"),
        (lambda x: torch.full((len(x), WAY), -float("inf")), "not for all classes of a target"),
    ],
)
def test_bad_scores(scores, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        audit(lambda context_x, context_y, target_x: scores(target_x), episode())


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda x, y, t: None, "got a NoneType that is no table of numbers for 1 target"),
        (lambda x, y, t: [["cat", "dog"]] * len(t), "got a list that is no table of numbers"),
        (lambda x, y, t: [[1.0], [1.0, 2.0]], "got a list that is no table of numbers"),
        (lambda x, y, t: torch.zeros(len(t), WAY, dtype=torch.complex64), "real scores, got torch.complex64"),
        (lambda targets: targets, r"three arguments, context_x, context_y and target_x; this one takes \(targets\)"),
        ("a name", r"cannot audit a str; pass a function predict\(context_x, context_y, target_x\)"),
    ],
)
def test_what_is_no_predictor(predict, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        audit(predict, episode())


def test_what_is_no_episode() -> None:
    task = episode()
    parts = (task.context_x, task.context_y, task.target_x, task.target_y)
    with pytest.raises(TypeError, match=r"must be a tasknorm\.Episode\(context_x, .*\), got tuple"):
        audit(lambda x, y, t: t, parts)


def test_an_error_of_the_predictor_is_its_own() -> None:
    def broken(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        raise KeyError("no such layer")

    with pytest.raises(KeyError, match="no such layer"):
        audit(broken, episode())


def test_arrays_for_a_predictor_of_arrays() -> None:
    def predict(context_x: np.ndarray, context_y: np.ndarray, target_x: np.ndarray) -> np.ndarray:
        means = np.stack([context_x[context_y == label].mean(0) for label in range(WAY)])
        return -((target_x[:, None] - means) ** 2).sum((2, 3, 4))

    assert audit(predict, episode(), arrays=True).label == "non-transductive"
    peeks = audit(lambda x, y, t: predict(x, y, t) - predict(x, y, t).mean(0), episode(), arrays=True)
    assert peeks.label == "transductive"


def test_the_predictor_cannot_change_the_episode_or_find_other_targets_in_memory() -> None:
    task = episode()
    before = task.target_x.clone()

    def greedy(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        assert target_x.untyped_storage().nbytes() == target_x.nbytes
        return brightness(context_x.add_(0), context_y, target_x.sub_(1).add_(1).mul_(0) + 1)

    assert not audit(greedy, task).transductive
    assert torch.equal(task.target_x, before)


def test_random_numbers_elsewhere_go_on_as_if_nothing_had_happened() -> None:
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    audit(lambda x, y, t: brightness(x, y, t) + torch.rand(len(t), WAY), episode())
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (np.random.get_state()[1].tolist(), random.getstate())


def test_the_predictor_itself_is_asked_about_one_target_only() -> None:
    asked = []

    class Counts:
        def __call__(self, context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
            asked.append(len(target_x)) if self is original else None
            return brightness(context_x, context_y, target_x)

    original = Counts()
    assert audit(original, episode()).calls > 50
    assert asked == [1]


def test_cannot_tell_is_an_answer() -> None:
    result = audit(lambda x, y, t: torch.from_numpy(np.random.default_rng().normal(size=(len(t), WAY))), episode())
    assert result.transductive is None
    assert result.label == "cannot tell, random"
    assert "the noise leaves room for peeking" in str(result)


def test_an_episode_that_cannot_tell() -> None:
    one = episode()
    with pytest.raises(ValueError, match="at least two targets of two classes to tell, got 1 of 1"):
        audit(brightness, Episode(one.context_x, one.context_y, one.target_x[:1], one.target_y[:1]))
