"""Every norm against float64 formulas written from the paper's equations alone (tests/support/oracle.py)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support import oracle
from support.random_norm import one_pass, random_norm, random_task
from support.random_norm import settings as oracle_settings
from tasknorm import NORMS
from tasknorm.norms import ALPHAS

norms = pytest.mark.parametrize("label", NORMS)
modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


def compare(label: str, norm, tasks, training: bool) -> None:
    """Outputs, gradients of inputs and parameters, and running moments of a joint pass agree with the oracle's."""
    norm.train(training)
    inputs = [x.requires_grad_() for task in tasks for x in task]
    parameters = list(norm.parameters())
    expected = oracle.normalize(label, tasks, oracle_settings(norm), training=training)
    wanted = torch.cat([torch.cat(pair) for pair in zip(expected.context, expected.target, strict=True)])
    output = one_pass(norm, *tasks)
    torch.testing.assert_close(output, wanted, rtol=0, atol=1e-11)
    torch.testing.assert_close(norm.running_mean, expected.running_mean, rtol=0, atol=1e-12)
    torch.testing.assert_close(norm.running_var, expected.running_var, rtol=0, atol=1e-12)
    weight = torch.linspace(-1, 2, output.numel(), dtype=torch.float64).view_as(output)
    options = {"allow_unused": True, "materialize_grads": True}
    for ours, theirs in zip(
        torch.autograd.grad((output * weight).sum(), inputs + parameters, **options),
        torch.autograd.grad((wanted * weight).sum(), inputs + parameters, **options),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@norms
@modes
@pytest.mark.parametrize("space", [(), (5,), (3, 2), (2, 2, 2)], ids=["features", "sequences", "images", "volumes"])
def test_norm_agrees_with_the_equations(label: str, training: bool, space: tuple[int, ...]) -> None:
    compare(label, random_norm(label), [random_task(space=space, seed=seed) for seed in range(2)], training)


@norms
@modes
def test_norm_agrees_with_the_equations_with_unbiased_variances(label: str, training: bool) -> None:
    if label == "RN" and not training:
        pytest.skip("RN pools the unbiased variances, as TaskNorm-I does: see tests/norms/test_reptile_norm.py")
    compare(label, random_norm(label, unbiased=True), [random_task()], training)


@pytest.mark.parametrize("label", ["TaskNorm-I", "TaskNorm-L", "TaskNorm-r"])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_every_form_of_alpha_agrees_with_the_equations(label: str, alpha: str) -> None:
    compare(label, random_norm(label, alpha=alpha), [random_task()], training=True)


@settings(max_examples=40, deadline=None)
@given(
    label=st.sampled_from(list(NORMS)),
    training=st.booleans(),
    context=st.integers(1, 5),
    target=st.integers(1, 5),
    tasks=st.integers(1, 3),
    space=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    seed=st.integers(0, 2**16),
)
def test_any_shape_agrees_with_the_equations(label, training, context, target, tasks, space, seed) -> None:
    drawn = [random_task(context, target, space, seed=seed + task) for task in range(tasks)]
    compare(label, random_norm(label, seed=seed), drawn, training)
