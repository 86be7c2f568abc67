import pytest
import torch
from torch.nn import functional as F

from support.random_norm import random_task
from tasknorm.norms import GN, IN, LN


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_gn_is_torchs_group_norm(groups: int) -> None:
    x = random_task()[0]
    torch.testing.assert_close(GN(6, num_groups=groups).double()(x), F.group_norm(x, groups), rtol=0, atol=1e-12)


def test_one_group_is_ln_and_one_for_each_channel_is_in() -> None:
    x = random_task()[0]
    for groups, norm in ((1, LN(6)), (6, IN(6))):
        torch.testing.assert_close(GN(6, num_groups=groups).double()(x), norm.double()(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("channels", "groups"), [(64, 32), (48, 16), (6, 2), (7, 1)])
def test_the_default_is_the_greatest_common_divisor_with_32(channels: int, groups: int) -> None:
    assert GN(channels).num_groups == groups


@pytest.mark.parametrize("groups", [0, 4, -2])
def test_groups_that_do_not_divide_the_channels(groups: int) -> None:
    with pytest.raises(
        ValueError, match=f"num_groups must divide the channels, got {groups} groups of 6 channels; 2 would"
    ):
        GN(6, num_groups=groups)
