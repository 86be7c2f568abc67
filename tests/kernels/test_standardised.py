"""Sets normalised with their own moments: equal to torch's batch norm, set by set, with derivatives up to the third."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tasknorm.kernels.standardised import can_standardise, standardised

EPS = 1e-3


def activations(sets: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    a = 2 + torch.randn(sets * 2, 2, 3, 2, generator=generator, dtype=torch.float64)
    return a.contiguous(memory_format=torch.channels_last)


def expected(a: torch.Tensor, bias: torch.Tensor | None, sets: int) -> torch.Tensor:
    """Batch norm; the bias is added outside, since torch's second derivative fails for a bias without a weight."""
    y = torch.cat([F.batch_norm(part, None, None, None, None, True, 0.0, EPS) for part in a.chunk(sets)])
    return y if bias is None else y + bias[:, None, None]


@pytest.mark.parametrize("sets", [1, 3])
@pytest.mark.parametrize("has_bias", [True, False])
def test_equals_batch_norm_in_value_and_two_derivatives(sets: int, has_bias: bool) -> None:
    a = activations(sets).requires_grad_()
    bias = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True) if has_bias else None
    inputs = [a] if bias is None else [a, bias]
    factor, direction = torch.randn_like(a), torch.randn_like(a)
    found = []
    for y in (standardised(a, bias, sets, EPS)[0], expected(a, bias, sets)):
        by_input = torch.autograd.grad((y * y * factor).sum(), inputs, create_graph=True)
        scalar = (by_input[0] * direction).sum() + sum(g.square().sum() for g in by_input[1:])
        found.append((y, by_input, torch.autograd.grad(scalar, inputs)))
    torch.testing.assert_close(*found)


def test_moments_are_those_of_each_set() -> None:
    a = activations()
    _, (mean, var) = standardised(a, None, 3, EPS)
    sets = a.view(3, 2, 2, 3, 2)
    torch.testing.assert_close(mean[:, 0], sets.mean((1, 3, 4)))
    torch.testing.assert_close(var[:, 0], sets.var((1, 3, 4), correction=0))


def test_third_derivatives() -> None:
    a, direction = activations(1)[:1].requires_grad_(), torch.randn(1, 2, 3, 2, dtype=torch.float64)

    def slope(x: torch.Tensor) -> torch.Tensor:
        (first,) = torch.autograd.grad(standardised(x, None, 1, EPS)[0].pow(3).sum(), x, create_graph=True)
        return (first * direction).sum()

    assert torch.autograd.gradgradcheck(slope, a)


def test_what_it_does_not_take() -> None:
    a = activations()
    assert can_standardise(a, 3)
    assert not can_standardise(a, 4)
    assert not can_standardise(a.half(), 3)
    assert not can_standardise(a.contiguous(), 3)
    assert not can_standardise(a[:, :, 0], 3)
