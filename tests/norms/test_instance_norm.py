import torch
from torch.nn import functional as F

from support.random_norm import random_norm, random_task


def test_in_is_torchs_instance_norm() -> None:
    norm, x = random_norm("IN"), random_task()[0]
    torch.testing.assert_close(norm(x), F.instance_norm(x, weight=norm.weight, bias=norm.bias), rtol=0, atol=1e-12)
