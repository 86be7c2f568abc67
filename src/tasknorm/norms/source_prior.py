"""Source-prior batch normalization: running moments that count as if they were those of N examples."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tasknorm.kernels import at_least_float
from tasknorm.norms.task_norm import TaskNormR


class SourcePrior(TaskNormR):
    """TaskNorm-r whose alpha is n / (n + N): n unlabelled images of a new domain against N of the old one.

        alpha = sigmoid(log |D| + OFFSET) = |D| / (|D| + N),  N = exp(-OFFSET)

    For test-time adaptation of a pretrained network: pass a batch as context, and take its scores. It is exact for
    contexts of every size, where TaskNorm's own alpha, a sigmoid of SCALE |D| + OFFSET, is so for one.

    Differs from Schneider et al., who average variances, in that means which differ add to the variance, as in all of
    TaskNorm: the moments are those of n and N examples put together.

    Args:
        num_features: channels C.
        prior: N, how many examples the running moments count as.
        **options: as for `TaskNorm`, without `alpha`.

    Reference: Schneider et al., 2020, "Improving robustness against common corruptions by covariate shift adaptation".

    >>> round(float(SourcePrior(64, prior=16).alpha(48).detach()), 4)
    0.75
    """

    label = "SourcePrior"

    def __init__(self, num_features: int, *, prior: float = 16, **options: Any) -> None:
        if not 0 < prior < math.inf:
            raise ValueError(f"prior must be a positive number of examples, got {prior}")
        super().__init__(num_features, **{"alpha": "independent-shared"} | options)
        with torch.no_grad():
            self.alpha_offset.fill_(-math.log(prior))

    def alpha(self, size: Tensor | float) -> Tensor:
        """How much a context of this size counts, from 0 to 1: `()`."""
        offset = at_least_float(self.alpha_offset)
        return torch.sigmoid(torch.as_tensor(size, dtype=offset.dtype, device=offset.device).log() + offset)

    def preserve(self) -> bool:
        """It starts with the prior that was asked for (see `Norm`)."""
        return True
