"""Running moments that are averaged anew, as torch's `update_bn` does for its own batch norms."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn

import tasknorm
from tasknorm import NORMS
from tasknorm.norms import averaged_running
from tasknorm.norms.running import RUNNING

TRACKING = [label for label in NORMS if NORMS[label].tracks]


def batches(count: int = 4) -> torch.Tensor:
    return torch.randn(count, 6, 3, 5, 5, generator=torch.Generator().manual_seed(0)) * 2 + 1


def network(label: str) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), NORMS[label](4), nn.ReLU())


@pytest.mark.parametrize("label", TRACKING)
def test_first_moments_are_those_of_update_bn(label: str) -> None:
    """Of the first norm, whose inputs do not depend on how norms before it normalise."""
    ours = AveragedModel(network(label)).eval()
    theirs = nn.Sequential(copy.deepcopy(ours.module[0]), nn.BatchNorm2d(4))
    update_bn(batches(), theirs)
    with averaged_running(ours), torch.no_grad():
        for batch in batches():
            with tasknorm.contexts(ours, tasks=1):
                ours(batch)
    for name in RUNNING:
        torch.testing.assert_close(getattr(ours.module[1], name), getattr(theirs[1], name))
    assert ours.module[1].momentum == 0.1
    assert not any(module.training for module in ours.modules())


@pytest.mark.parametrize("label", TRACKING)
def test_an_error_or_no_pass_leaves_all_as_it_was(label: str) -> None:
    model = network(label)
    with tasknorm.contexts(model, tasks=1):
        model(batches()[0])
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ZeroDivisionError), averaged_running(model), tasknorm.contexts(model, tasks=1):
        model(batches()[1])
        raise ZeroDivisionError
    with averaged_running(model):
        pass
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model[1].momentum == 0.1


def test_the_count_goes_on() -> None:
    model = network("BRN")
    model[1].num_batches_tracked.fill_(1000)
    with averaged_running(model):
        model(batches()[0])
    assert model[1].num_batches_tracked == 1001


def test_a_model_without_running_moments() -> None:
    for model in (network("TBN"), nn.BatchNorm2d(3)):
        with pytest.raises(ValueError, match=r"keep running moments \(CBN, BRN, TaskNorm-r\).*update_bn"):
            with averaged_running(model):
                pass


@pytest.mark.parametrize("label", TRACKING)
def test_docstrings_warn_of_update_bn(label: str) -> None:
    """Torch gives no way to notice that it passes these norms by."""
    assert "averaged_running" in (NORMS[label].__doc__ or "")
    assert "update_bn" in (tasknorm.Norm.__doc__ or "")
