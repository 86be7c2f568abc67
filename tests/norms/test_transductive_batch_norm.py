import torch
from torch.nn import functional as F

from support.random_norm import random_norm, random_task, two_passes


def test_tbn_is_torchs_batch_norm_in_training() -> None:
    for training in (True, False):
        norm = random_norm("TBN").train(training)
        task = random_task()
        for ours, x in zip(two_passes(norm, task), task, strict=True):
            expected = F.batch_norm(x, None, None, norm.weight, norm.bias, training=True)
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(norm(task[0]), two_passes(norm, task)[0], rtol=0, atol=0)
