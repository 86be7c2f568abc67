"""The moment tables: the law of total variance, and pooling as the paper writes it."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tasknorm.moments import (
    Moments,
    batch_moments,
    group_moments,
    layer_moments,
    pooled_moments,
    renormalised_moments,
    unbiased,
)


def instance(a: Tensor) -> Moments:
    return Moments(a.mean(-1), a.var(-1, correction=0))


def test_batch_moments_are_those_of_all_pixels() -> None:
    a = torch.randn(5, 3, 7, dtype=torch.float64)
    mean, var = batch_moments(instance(a))
    torch.testing.assert_close(mean[0], a.mean((0, 2)))
    torch.testing.assert_close(var[0], a.var((0, 2), correction=0))


def test_batch_moments_of_members_are_those_of_the_rows_that_count() -> None:
    a = torch.randn(5, 3, 7, dtype=torch.float64)
    a[2], a[3], a[4] = torch.nan, torch.inf, 1e300
    members = torch.tensor([True, True, False, False, False])[:, None]
    for ours, theirs in zip(batch_moments(instance(a), members, 2), batch_moments(instance(a[:2])), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_layer_and_group_moments() -> None:
    a = torch.randn(5, 6, 7, dtype=torch.float64)
    mean, var = layer_moments(instance(a))
    torch.testing.assert_close(mean[:, 0], a.mean((1, 2)))
    torch.testing.assert_close(var[:, 0], a.var((1, 2), correction=0))
    grouped = a.reshape(5, 3, 14)
    mean, var = group_moments(instance(a), 3)
    torch.testing.assert_close(mean, grouped.mean(2).repeat_interleave(2, 1))
    torch.testing.assert_close(var, grouped.var(2, correction=0).repeat_interleave(2, 1))


@given(st.floats(0, 1), st.integers(0, 2**16))
def test_pooling_is_equations_10_and_11(alpha: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    m1, m2, v1, v2 = torch.rand(4, 3, generator=generator, dtype=torch.float64) * 3
    mean = alpha * m1 + (1 - alpha) * m2
    var = alpha * (v1 + (m1 - mean) ** 2) + (1 - alpha) * (v2 + (m2 - mean) ** 2)
    pooled = pooled_moments(Moments(m1, v1), Moments(m2, v2), torch.tensor(alpha, dtype=torch.float64))
    torch.testing.assert_close(pooled, Moments(mean, var), rtol=0, atol=1e-13)


def test_pooling_at_the_ends_gives_either_side_exactly() -> None:
    first, second = (Moments(*torch.rand(2, 4, dtype=torch.float64)) for _ in range(2))
    for alpha, side in ((1.0, first), (0.0, second)):
        pooled = pooled_moments(first, second, torch.tensor(alpha, dtype=torch.float64))
        assert torch.equal(pooled.mean, side.mean)
        assert torch.equal(pooled.var, side.var)


def test_renormalised_moments_normalise_as_the_paper_writes_it() -> None:
    a, eps = torch.randn(20, 3, dtype=torch.float64) * 2 + 1, 1e-5
    batch = Moments(a.mean(0), a.var(0, correction=0))
    running = Moments(*torch.rand(2, 3, dtype=torch.float64))
    r_max, d_max = torch.tensor(1.5), torch.tensor(0.7)
    sigma, sigma_r = (torch.sqrt(m.var + eps) for m in (batch, running))
    r = (sigma / sigma_r).clamp(1 / 1.5, 1.5)
    d = ((batch.mean - running.mean) / sigma_r).clamp(-0.7, 0.7)
    mean, var = renormalised_moments(batch, running, r_max, d_max, eps)
    ours = (a - mean) / torch.sqrt(var + eps)
    torch.testing.assert_close(ours, r * (a - batch.mean) / sigma + d, rtol=1e-6, atol=1e-6)


def test_unbiased_divides_by_one_less_and_leaves_a_single_number_alone() -> None:
    a = torch.randn(6, dtype=torch.float64)
    biased = Moments(a.mean(), a.var(correction=0))
    torch.testing.assert_close(unbiased(biased, 6).var, a.var())
    torch.testing.assert_close(unbiased(biased, torch.tensor(6)).var, a.var())
    assert unbiased(biased, 1).var == biased.var == unbiased(biased, torch.tensor(1)).var
