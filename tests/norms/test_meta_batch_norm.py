import torch
from torch.nn import functional as F

from support.random_norm import random_norm, random_task, two_passes


def test_metabn_normalises_targets_as_torchs_batch_norm_with_the_contexts_moments() -> None:
    norm = random_norm("MetaBN")
    context, target = random_task()
    mean, var = context.mean((0, 2, 3)), context.var((0, 2, 3), correction=0)
    ours = two_passes(norm, (context, target))
    for output, x in zip(ours, (context, target), strict=True):
        torch.testing.assert_close(output, F.batch_norm(x, mean, var, norm.weight, norm.bias), rtol=0, atol=1e-12)
