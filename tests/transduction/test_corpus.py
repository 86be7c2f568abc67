"""The audit is right about every predictor whose truth is known; "cannot tell" is allowed of random ones only."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from support import audit_corpus
from support.audit_corpus import (
    HONEST,
    HONEST_RANDOM,
    ILL_CONDITIONED,
    PEEKING,
    PEEKING_RANDOM,
    centred,
    products,
    soft_k_means,
)
from tasknorm import audit
from tasknorm.transduction.chance import p_value

ALL = audit_corpus.episode(75)
FEW = audit_corpus.episode(20)  # random predictors are asked often


@pytest.mark.parametrize("name", HONEST)
def test_honest(name: str) -> None:
    result = audit(HONEST[name](), ALL)
    assert result.label == "non-transductive", result
    assert result.calls < 350


@pytest.mark.parametrize("name", HONEST_RANDOM)
def test_honest_and_random(name: str) -> None:
    result = audit(HONEST_RANDOM[name](), FEW)
    assert result.random
    assert not result.transductive, result


@pytest.mark.parametrize("name", PEEKING)
def test_peeking(name: str) -> None:
    result = audit(PEEKING[name](), ALL)
    assert result.transductive, result


@pytest.mark.parametrize("name", PEEKING_RANDOM)
def test_peeking_and_random(name: str) -> None:
    result = audit(PEEKING_RANDOM[name](), FEW)
    assert result.random
    assert result.transductive, result


@pytest.mark.parametrize("name", ILL_CONDITIONED)
def test_rounding_is_told_from_peeking_where_it_is_large(name: str) -> None:
    episode, predict, peeks = ILL_CONDITIONED[name]
    assert audit(predict, episode).transductive is peeks


def test_rounding_is_large_where_it_is_said_to_be() -> None:
    episode, predict, _ = ILL_CONDITIONED["distances, 2048 features around 10"]
    assert audit(predict, episode).movement["example"] > 0.1


def test_integers_as_inputs() -> None:
    def pixels(x: torch.Tensor) -> torch.Tensor:
        return (20 * x + 128).clamp(0, 255).byte()

    def scores(context_x, context_y, target_x):
        return audit_corpus.distances(10 + context_x / 2550, context_y, 10 + target_x / 2550)

    images = replace(ALL, context_x=pixels(ALL.context_x), target_x=pixels(ALL.target_x))
    assert audit(scores, images).label == "non-transductive"
    assert audit(lambda x, y, t: centred(scores(x, y, t)), images).label == "transductive"


def test_the_corpus_is_large() -> None:
    assert len(HONEST) + len(HONEST_RANDOM) >= 30
    assert len(PEEKING) + len(PEEKING_RANDOM) >= 30


@pytest.mark.parametrize("noisy", ["centred", "soft k-means"])
def test_noise_without_a_seed_hides_peeking_in_at_most_2_of_30_tries(noisy: str) -> None:
    def predict(context_x, context_y, target_x):
        if noisy == "centred":
            scores = centred(products(context_x, context_y, target_x))
            return scores + 0.4 * audit_corpus.urandom(scores.shape)
        scores = soft_k_means(context_x, context_y, target_x, steps=1)
        return scores + 0.02 * scores.std() * audit_corpus.urandom(scores.shape)

    found = [audit(predict, audit_corpus.episode(6, seed=seed)).transductive for seed in range(30)]
    assert sum(verdict is True for verdict in found) >= 28


@pytest.mark.parametrize("heavy", [False, True])
def test_p_values_of_honest_noise_are_no_smaller_than_they_say(heavy: bool) -> None:
    generator = torch.Generator().manual_seed(0)

    def tables() -> tuple[torch.Tensor, torch.Tensor]:
        noise = torch.randn(2, 10, 6, generator=generator, dtype=torch.float64)
        noise = noise.exp() ** 2 if heavy else noise
        return noise[0], noise[1]

    values = torch.tensor([p_value([tables(), tables(), tables()]) for _ in range(600)])
    for level in (0.01, 0.05, 0.2):
        assert (values <= level).double().mean() <= level + 3 * (level / 600) ** 0.5


def test_p_values_of_a_consistent_difference_are_the_smallest_there_are() -> None:
    noise = torch.randn(2, 14, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert p_value([(noise[0] + 20, noise[1])]) == 1 / 2**13
    assert p_value([(noise[0], noise[0])]) == 1.0
