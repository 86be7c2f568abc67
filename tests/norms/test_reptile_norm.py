import math

import pytest
import torch
from torch.nn import functional as F

from support.random_norm import random_norm, random_task, two_passes


@pytest.mark.parametrize("size", [1, 5, 100])
@pytest.mark.parametrize("unbiased", [False, True])
def test_rn_is_task_norm_i_with_alpha_n_over_n_plus_1_on_targets(size: int, unbiased: bool) -> None:
    rn = random_norm("RN", unbiased=unbiased).eval()
    task_norm = random_norm("TaskNorm-I", alpha="independent-shared", unbiased=unbiased).eval()
    task_norm.weight, task_norm.bias = rn.weight, rn.bias
    with torch.no_grad():
        task_norm.alpha_offset.fill_(math.log(size))  # sigmoid(log n) = n / (n + 1)
    task = random_task(size)
    torch.testing.assert_close(two_passes(rn, task)[1], two_passes(task_norm, task)[1], rtol=0, atol=1e-12)


def test_rn_normalises_a_target_with_the_context_and_itself() -> None:
    norm = random_norm("RN").eval()
    context, target = random_task()
    for output, x in zip(two_passes(norm, (context, target))[1], target, strict=True):
        together = F.batch_norm(torch.cat([context, x[None]]), None, None, norm.weight, norm.bias, training=True)
        torch.testing.assert_close(output, together[-1], rtol=0, atol=1e-12)


def test_rn_trains_like_tbn() -> None:
    rn, tbn = random_norm("RN"), random_norm("TBN")
    torch.testing.assert_close(two_passes(rn, random_task()), two_passes(tbn, random_task()), rtol=0, atol=1e-12)
