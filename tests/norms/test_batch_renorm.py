import pytest
import torch

import tasknorm
from support.random_norm import random_task
from tasknorm.norms import BRN, CBN


def test_with_the_schedule_at_its_start_brn_trains_like_cbn() -> None:
    context, target = random_task()
    outputs = []
    for norm in (BRN(6).double(), CBN(6).double()):
        with tasknorm.joint(norm, context_size=4):
            outputs.append(norm(torch.cat([context, target])))
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-10)


def test_with_wide_bounds_brn_normalises_with_the_running_moments() -> None:
    norm = BRN(6, schedule=0, r_max=1e6, d_max=1e6).double()
    norm.running_mean.fill_(0.5)
    norm.running_var.fill_(2.0)
    x = random_task()[0]
    torch.testing.assert_close(norm(x), (x - 0.5) / torch.sqrt(torch.tensor(2.0 + 1e-5)), rtol=0, atol=1e-6)


def test_the_schedule_counts_updates() -> None:
    norm = BRN(6, schedule=80)
    bounds = {}
    for updates in (0, 10, 30, 50, 80, 100):
        norm.num_batches_tracked.fill_(updates)
        bounds[updates] = tuple(float(bound) for bound in norm.bounds())
    assert bounds[0] == bounds[10] == (1.0, 0.0)
    assert bounds[30] == pytest.approx((1 + 2 * 20 / 70, 2.5))
    assert bounds[50] == pytest.approx((1 + 2 * 40 / 70, 5.0))
    assert bounds[80] == bounds[100] == (3.0, 5.0)


@pytest.mark.parametrize("options", [{"r_max": 0.5}, {"d_max": -1.0}, {"schedule": -1}])
def test_bad_bounds(options) -> None:
    with pytest.raises(ValueError, match="BRN needs r_max >= 1, d_max >= 0 and schedule >= 0, got"):
        BRN(6, **options)
