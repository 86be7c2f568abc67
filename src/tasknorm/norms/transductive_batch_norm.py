"""TBN, transductive batch normalization: section 3.2."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from tasknorm.kernels import is_traced
from tasknorm.norms.norm import Activations, Moments, Norm


class TBN(Norm):
    """Batch normalization that always uses the batch at hand, also at meta-test.

    mean, variance: those of the set, context or target, that is being normalised (section 3.2).

    Context sees the context set and target sees the target set, at meta-train and at meta-test alike.

    **Transductive: yes.** A prediction depends on the other targets in its batch.

    Learned: gamma, beta.

    Reference: Finn et al., 2017, "Model-agnostic meta-learning for fast adaptation of deep networks", as implemented
    by its authors; named in the TaskNorm paper.
    """

    label = "TBN"
    transductive = True
    needs_context = False
    tracks = False

    def moments(self, a: Activations) -> Moments:
        return a.own

    def normalised(self, x: Tensor) -> Tensor:
        if self._is_torchs(x):
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        found = self.by_own_sets(x) if self.training or self.twice else None
        return super().normalised(x) if found is None else found[0]

    def _is_torchs(self, x: Tensor) -> bool:
        """Whether torch's own batch norm does the same: one set of more than one number a channel, of floats."""
        one_set = self.phase is None or (self.phase.kind != "joint" and self.phase.tasks == 1)
        plain = x.dtype in (torch.float32, torch.float64) and x.dtype == self.running_mean.dtype
        several = x.numel() > x.shape[1]
        return one_set and plain and several and not self.unbiased and not is_traced()
