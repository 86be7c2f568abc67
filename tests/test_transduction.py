"""The audit labels every norm of the table, and predictors that are none of ours."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (lambda x: torch.zeros(len(x)), r"scores of shape \(targets, way\), got \(12,\) for 12 targets"),
        (lambda x: torch.zeros(1, WAY), r"got \(1, 3\) for 12 targets"),
        (lambda x: torch.full((len(x), WAY), float("nan")), "not finite for 12 targets"),
    ],
)
def test_bad_scores(scores, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        audit(lambda context_x, context_y, target_x: scores(target_x), episode())


def test_an_episode_that_cannot_tell() -> None:
    one = episode()
    with pytest.raises(ValueError, match="at least two targets of two classes to tell, got 1 of 1"):
        audit(brightness, Episode(one.context_x, one.context_y, one.target_x[:1], one.target_y[:1]))
