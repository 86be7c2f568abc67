import torch
from torch.nn import functional as F

from support.random_norm import CHANNELS, random_norm, random_task


def test_ln_is_torchs_group_norm_of_one_group() -> None:
    norm, x = random_norm("LN"), random_task()[0]
    torch.testing.assert_close(norm(x), F.group_norm(x, 1, norm.weight, norm.bias), rtol=0, atol=1e-12)


def test_on_features_ln_is_torchs_layer_norm() -> None:
    norm, x = random_norm("LN"), random_task(space=())[0]
    torch.testing.assert_close(norm(x), F.layer_norm(x, (CHANNELS,), norm.weight, norm.bias), rtol=0, atol=1e-12)
