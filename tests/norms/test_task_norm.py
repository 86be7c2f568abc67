import copy

import pytest
import torch

import tasknorm
from support.random_norm import random_norm, random_task, two_passes
from tasknorm import NORMS
from tasknorm.norms import ALPHAS

LIMITS = {"TaskNorm-I": "IN", "TaskNorm-L": "LN", "TaskNorm-r": "Baseline"}
labels = pytest.mark.parametrize("label", LIMITS)


def with_alpha(label: str, offset: float) -> tasknorm.Norm:
    norm = random_norm(label, alpha="independent-shared")
    with torch.no_grad():
        norm.alpha_offset.fill_(offset)
    return norm


@labels
@pytest.mark.parametrize("offset", [torch.finfo(torch.float64).max, -torch.finfo(torch.float64).max])
def test_alpha_1_is_metabn_and_alpha_0_is_the_secondary_norm(label: str, offset: float) -> None:
    norm = with_alpha(label, offset)
    limit = random_norm("MetaBN" if offset > 0 else LIMITS[label])
    limit.weight, limit.bias = norm.weight, norm.bias
    limit.load_state_dict({k: v for k, v in norm.state_dict().items() if k.startswith("running")}, strict=False)
    task = random_task()
    torch.testing.assert_close(two_passes(norm, task), two_passes(limit, task), rtol=0, atol=1e-12)


@labels
@pytest.mark.parametrize("alpha", ALPHAS)
def test_alpha_starts_at_a_half_and_has_the_form_asked_for(label: str, alpha: str) -> None:
    norm = NORMS[label](6, alpha=alpha)
    assert (norm.alpha_scale is None) is alpha.startswith("independent")
    shape = (6,) if alpha.endswith("channel") else ()
    assert norm.alpha(25).shape == shape == norm.alpha_offset.shape
    assert torch.equal(norm.alpha(25), torch.full(shape, 0.5))


def test_alpha_is_a_function_of_the_context_size_where_it_says_so() -> None:
    functional, independent = (
        NORMS["TaskNorm-I"](6, alpha=form) for form in ("functional-shared", "independent-shared")
    )
    with torch.no_grad():
        functional.alpha_scale.fill_(0.1)
        functional.alpha_offset.fill_(-0.2)
        independent.alpha_offset.fill_(-0.2)
    assert functional.alpha(5).item() == pytest.approx(torch.sigmoid(torch.tensor(0.3)).item())
    assert functional.alpha(torch.tensor(50)).item() == pytest.approx(torch.sigmoid(torch.tensor(4.8)).item())
    assert independent.alpha(5) == independent.alpha(500)


@labels
def test_an_unknown_form_of_alpha(label: str) -> None:
    with pytest.raises(ValueError, match=r"alpha must be one of functional-shared, .*independent-channel, got 'fixed'"):
        NORMS[label](6, alpha="fixed")


def test_running_moments_come_from_the_context_alone() -> None:
    norm = random_norm("TaskNorm-r")
    context, target = random_task()
    two_passes(norm, (context, target))
    other = random_norm("TaskNorm-r")
    two_passes(other, (context, target * 5))
    torch.testing.assert_close(norm.running, other.running, rtol=0, atol=0)
    assert norm.num_batches_tracked == 8


def test_both_passes_of_a_training_step_see_the_running_moments_from_before_it() -> None:
    norm = random_norm("TaskNorm-r")
    frozen = copy.deepcopy(norm).eval()
    torch.testing.assert_close(two_passes(norm, random_task()), two_passes(frozen, random_task()), rtol=0, atol=1e-13)
