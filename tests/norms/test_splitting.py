"""What clients share and what they keep: every entry in one part, and both together load strictly."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import tasknorm
from tasknorm import NORMS, split_state
from tasknorm.norms.norm import CONTEXT
from tasknorm.norms.running import RUNNING

MOMENTS = {*RUNNING, *CONTEXT}


def net(norm: str | None = None, seed: int = 0) -> nn.Module:
    """A small network with moments of its own, running and of a context."""
    torch.manual_seed(seed)
    inner = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), inner, nn.Flatten(), nn.Linear(64, 2))
    model(torch.randn(6, 3, 8, 8))
    if norm is not None:
        model = tasknorm.convert(model, norm, start="paper").eval()
        with tasknorm.context(model):
            model(torch.randn(6, 3, 8, 8))
    return model


@pytest.mark.parametrize("keep", ["SiloBN", "FedBN"])
@pytest.mark.parametrize("norm", [None, *NORMS])
def test_both_parts_together_are_the_model(norm: str | None, keep: str) -> None:
    model = net(norm)
    shared, local = split_state(model, keep)
    assert not shared.keys() & local.keys()
    assert (shared | local).keys() == model.state_dict().keys()
    assert {name.rpartition(".")[0] for name in local} == {"1", "3.1"}
    for name in model.state_dict():
        module, _, own = name.rpartition(".")
        assert (name in local) is (module in ("1", "3.1") and (keep == "FedBN" or own in MOMENTS))
    other = net(norm, seed=1)
    other.load_state_dict(shared | local)
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name


def test_alpha_is_shared_as_a_weight_or_kept_as_part_of_the_norm() -> None:
    model = net("TaskNorm-I")
    for keep, part in (("SiloBN", 0), ("FedBN", 1)):
        assert {"1.alpha_scale", "1.alpha_offset", "1.weight"} <= split_state(model, keep)[part].keys()


def test_the_parts_are_copies() -> None:
    model = net()
    before = copy.deepcopy(model.state_dict())
    shared, local = split_state(model)
    for value in (shared | local).values():
        value.zero_()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_only_the_shared_part_travels() -> None:
    """A client that loads another's shared part keeps its own moments."""
    one, other = net("CBN"), net("CBN", seed=1)
    shared, _ = split_state(one)
    _, local = split_state(other)
    assert other.load_state_dict(shared, strict=False).unexpected_keys == []
    for name, value in local.items():
        assert torch.equal(other.state_dict()[name], value)


def test_a_norm_used_in_two_places_is_a_norm_in_both() -> None:
    norm = nn.BatchNorm1d(3)
    _, local = split_state(nn.Sequential(norm, nn.Linear(3, 3), norm))
    assert {name[0] for name in local} == {"0", "2"}


def test_torchs_other_norms_and_models_without_any() -> None:
    assert len(split_state(nn.InstanceNorm2d(3, track_running_stats=True))[1]) == 3
    assert split_state(nn.BatchNorm2d(3, track_running_stats=False))[1] == {}
    for module in (nn.Linear(3, 3), nn.LayerNorm(3), nn.GroupNorm(1, 3)):
        assert split_state(module, "FedBN")[1] == {}


def test_wrong_input_is_told() -> None:
    with pytest.raises(ValueError, match="got 'FedAvg'"):
        split_state(net(), "FedAvg")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="run the model once"):
        split_state(nn.Sequential(nn.LazyBatchNorm2d()))
