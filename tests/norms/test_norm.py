"""Inputs that no norm accepts."""

from __future__ import annotations

import copy

import pytest
import torch

import tasknorm
from support.random_norm import random_norm
from tasknorm import NORMS

norms = pytest.mark.parametrize("label", NORMS)


@norms
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(4, 5, 3, 3), ValueError, r"was made for 6 channels and expects \(examples, 6, \*space\), got .*5"),
        (torch.zeros(6), ValueError, r"expects \(examples, 6, \*space\)"),
        (torch.zeros(4, 6, 3, dtype=torch.long), TypeError, r"floating-point activations, got torch.int64; .*x.float"),
        (torch.zeros(0, 6, 3, 3), ValueError, r"at least one example in the context set, got a tensor of shape \(0, 6"),
    ],
)
def test_bad_input(label: str, x: torch.Tensor, error: type[Exception], message: str) -> None:
    norm = random_norm(label)
    before = copy.deepcopy(norm.state_dict())
    with pytest.raises(error, match=f"{label} .*{message}"), tasknorm.context(norm):
        norm(x)
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())


@norms
def test_an_empty_target(label: str) -> None:
    norm = random_norm(label, dtype=torch.float32)
    with tasknorm.context(norm):
        norm(torch.randn(2, 6, 3))
    with pytest.raises(ValueError, match="at least one example in the target set"), tasknorm.target(norm):
        norm(torch.randn(0, 6, 3))


@norms
@pytest.mark.parametrize("features", [0, -1, 2.0, True])
def test_bad_number_of_features(label: str, features) -> None:
    with pytest.raises(ValueError, match="num_features must be a positive integer"):
        NORMS[label](features)


@norms
def test_bad_affine_and_unknown_options(label: str) -> None:
    with pytest.raises(ValueError, match=r'affine must be True, False or "offset", got \'scale\''):
        NORMS[label](4, affine="scale")
    with pytest.raises(TypeError, match="epsilon"):
        NORMS[label](4, epsilon=1e-3)
