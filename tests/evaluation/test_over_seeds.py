"""Intervals over seeds cover the truth as often as they say, and pairing within seeds is what tells norms apart."""

from __future__ import annotations

import math
import random
from statistics import stdev

import pytest

from tasknorm.evaluation.over_seeds import over_seeds, seeds_needed, students_t

REPETITIONS = 1000

# From the published table of Student's t, two-sided 95 %.
PUBLISHED = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 29: 2.045, 120: 1.980}


@pytest.mark.parametrize(("freedom", "quantile"), PUBLISHED.items())
def test_students_t_is_that_of_the_published_table(freedom: int, quantile: float) -> None:
    assert students_t(freedom) == pytest.approx(quantile, abs=5e-4)


@pytest.mark.parametrize("freedom", [1, 2, 3, 6, 11])
@pytest.mark.parametrize("inside", [0.5, 0.9, 0.99])
def test_students_t_bounds_that_share_of_the_density(freedom: int, inside: float) -> None:
    bound, steps = students_t(freedom, inside), 20_000
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
    places = [bound * (2 * step + 1) / steps - bound for step in range(steps)]
    area = sum(scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2) for t in places) * 2 * bound / steps
    assert area == pytest.approx(inside, abs=1e-6)


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_the_truth_is_inside_in_95_of_100_comparisons(seeds: int) -> None:
    """A made-up learner whose true accuracy is known: seeds scatter, and so do the tasks that each is tested on."""
    random_ = random.Random(seeds)
    truth, inside, percentile = 0.8, 0, 0
    for _ in range(REPETITIONS):
        measured = []
        for _ in range(seeds):
            of_seed = random_.gauss(truth, 0.02)
            measured.append(of_seed + random_.gauss(0.0, 0.01))  # 200 test tasks
        found = over_seeds(measured)
        inside += abs(found.mean - truth) <= found.interval
        percentile += abs(found.mean - truth) <= 1.96 * stdev(measured) / math.sqrt(seeds)
    four_deviations = 4 * math.sqrt(0.95 * 0.05 * REPETITIONS)
    assert abs(inside - 0.95 * REPETITIONS) <= four_deviations
    if seeds <= 5:  # the normal distribution's 1.96 would cover too little: this test can fail
        assert abs(percentile - 0.95 * REPETITIONS) > four_deviations


def test_a_paired_difference_is_certain_where_unpaired_intervals_overlap() -> None:
    one = [0.80, 0.90, 0.85]  # seeds differ much
    other = [0.78, 0.88, 0.832]  # and each norm with its seed
    difference = over_seeds([a - b for a, b in zip(one, other, strict=True)])
    assert difference.mean > difference.interval
    first, second = over_seeds(one), over_seeds(other)
    assert first.mean - second.mean < math.hypot(first.interval, second.interval)


def test_equal_values_have_no_interval_and_one_value_is_refused() -> None:
    assert over_seeds([0.5, 0.5]).interval == 0
    with pytest.raises(ValueError, match="needs at least two, got 1"):
        over_seeds([0.5])


@pytest.mark.parametrize("values", [[0.02, -0.01, 0.02], [0.005, 0.001], [-0.03, -0.01, -0.02]])
def test_the_number_of_seeds_that_would_tell(values: list[float]) -> None:
    needed = seeds_needed(values, 200)
    assert needed is not None
    mean, scatter = abs(sum(values)) / len(values), stdev(values)
    assert mean > students_t(needed - 1) * scatter / math.sqrt(needed)
    assert needed == len(values) + 1 or mean <= students_t(needed - 2) * scatter / math.sqrt(needed - 1)
    assert seeds_needed(values, needed - 1) is None
