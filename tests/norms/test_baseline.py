import pytest
import torch
from torch.nn import functional as F

import tasknorm
from support.random_norm import random_norm, random_task
from tasknorm.norms import Baseline


def test_baseline_is_torchs_batch_norm_in_eval_always() -> None:
    for training in (True, False):
        norm, x = random_norm("Baseline").train(training), random_task()[0]
        expected = F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        torch.testing.assert_close(norm(x), expected, rtol=0, atol=1e-12)
        assert norm.num_batches_tracked == 7


def test_baseline_without_running_moments() -> None:
    norm = Baseline(6)
    message = "there are none; convert a trained network .* or load its state_dict"
    with pytest.raises(RuntimeError, match=message):
        norm(torch.randn(2, 6, 3))
    with pytest.raises(RuntimeError, match=message), tasknorm.joint(norm, context_size=1):
        norm(torch.randn(2, 6, 3))


def test_moments_of_an_old_checkpoint_without_a_count_are_moments() -> None:
    norm = Baseline(6)
    norm.load_state_dict({"running_mean": torch.ones(6), "running_var": torch.ones(6)}, strict=False)
    assert norm(torch.ones(2, 6, 3)).abs().max() < 1e-6
