"""Probabilities that mean what they say, tested where the truth is known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tasknorm.learners import Calibration, calibration_error, negative_log_likelihood
from tasknorm.learners.calibration import COLDEST, HOTTEST


def tasks(seed: int, count: int, too_hot: float, way: int = 5) -> tuple[list[Tensor], list[Tensor]]:
    """Logits and labels: labels are drawn from softmax(z), and the logits are `too_hot` times z."""
    random = torch.Generator().manual_seed(seed)
    truth = [2 * torch.randn(75, way, generator=random, dtype=torch.float64) for _ in range(count)]
    labels = [z.softmax(-1).multinomial(1, generator=random)[:, 0] for z in truth]
    return [too_hot * z for z in truth], labels


@pytest.mark.parametrize("too_hot", [0.1, 1.0, 3.0, 40.0])
def test_the_temperature_is_found_and_helps_on_fresh_tasks(too_hot: float) -> None:
    found = Calibration.on(*tasks(0, 200, too_hot))
    assert found.temperature == pytest.approx(too_hot, rel=0.05)
    assert found.tasks == 200
    logits, labels = (torch.cat(each) for each in tasks(1, 200, too_hot))
    before, after = Calibration().probabilities(logits), found.probabilities(logits)
    assert calibration_error(after, labels) < 0.015
    assert negative_log_likelihood(after, labels) < negative_log_likelihood(before, labels) + 1e-4
    if too_hot != 1:
        assert calibration_error(after, labels) < calibration_error(before, labels) / 3
        assert negative_log_likelihood(after, labels) < negative_log_likelihood(before, labels) - 0.03


def test_one_in_twenty_known_images_is_rejected() -> None:
    found = Calibration.on(*tasks(0, 200, 3.0))
    here, fresh = (found.probabilities(torch.cat(tasks(seed, 200, 3.0)[0])).amax(-1) for seed in (0, 1))
    assert found.threshold is not None
    assert (here < found.threshold).double().mean() == pytest.approx(0.05, abs=1e-4)
    assert (fresh < found.threshold).double().mean() == pytest.approx(0.05, abs=0.01)


def recognised(seed: int, way: int) -> tuple[list[Tensor], list[Tensor]]:
    """Logits that a class's own images raise by 4, with noise of deviation 1.5, scaled to be the true ones."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(way, (20_000,), generator=random)
    raised = 4 * torch.nn.functional.one_hot(labels, way) + 1.5 * torch.randn(len(labels), way, generator=random)
    return [4 / 1.5**2 * raised], [labels]


@pytest.mark.parametrize("way", [2, 3, 10, 20])
def test_the_threshold_moves_with_the_way(way: int) -> None:
    """Chosen on 5-way tasks, it rejects about as many images of other tasks; as it is, it would not."""
    found = Calibration.on(*recognised(0, 5)).model_copy(update={"way": 5})
    assert found.temperature == pytest.approx(1, abs=0.05)
    largest = found.probabilities(recognised(1, way)[0][0]).amax(-1)
    moved, unmoved = ((largest < bound).double().mean() for bound in (found.threshold_for(way), found.threshold))
    assert 0.01 < moved < 0.09
    assert abs(moved - 0.05) < abs(unmoved - 0.05)
    assert Calibration(threshold=1.0, way=5).threshold_for(way) == 1
    assert Calibration(threshold=0.0, way=5).threshold_for(way) == 0


def test_ways_may_vary_between_tasks() -> None:
    logits, labels = (first + second for first, second in zip(tasks(0, 50, 2.0), tasks(1, 50, 2.0, way=9), strict=True))
    assert Calibration.on(logits, labels).temperature == pytest.approx(2, rel=0.1)


def test_tasks_without_a_mistake_do_not_make_every_answer_certain() -> None:
    logits, labels = (torch.cat(each) for each in tasks(0, 20, 3.0))
    logits += 100 * torch.nn.functional.one_hot(labels, 5)
    found = Calibration.on([logits], [labels])
    assert found.threshold is not None
    assert found.threshold < 0.99999
    assert found.temperature > 1


def test_hopeless_logits_end_at_the_bound() -> None:
    labels = torch.arange(5).repeat(10)
    logits = -10 * torch.nn.functional.one_hot(labels, 5).double()
    found = Calibration.on([logits], [labels])
    assert found.temperature == pytest.approx(HOTTEST)
    assert found.probabilities(logits).isfinite().all()


def test_logits_that_are_all_alike() -> None:
    found = Calibration.on([torch.zeros(20, 5)], [torch.arange(5).repeat(4)])
    assert found.threshold == pytest.approx(0.2)
    assert COLDEST <= found.temperature <= HOTTEST


def test_calibration_error_of_a_known_case() -> None:
    probabilities = torch.tensor([[0.9, 0.1]] * 10, dtype=torch.float64)
    labels = torch.tensor([0] * 6 + [1] * 4)
    assert calibration_error(probabilities, labels) == pytest.approx(0.3)
    assert negative_log_likelihood(probabilities, labels) == pytest.approx(-0.6 * math.log(0.9) - 0.4 * math.log(0.1))
