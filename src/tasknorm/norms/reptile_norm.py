"""RN, reptile normalization: section 4.2."""

import torch

from tasknorm.moments import pooled_moments
from tasknorm.norms.norm import Activations, Moments, Norm


class RN(Norm):
    """At meta-test, each target is normalised with the context and itself.

    mean, variance: those of the set being normalised at meta-train; at meta-test, those of the context set for context
    examples, and of the context set with this one example added for a target (section 4.2). The latter is TaskNorm-I
    with alpha = |D| / (1 + |D|), which is how it is computed, also where `unbiased=True` makes the two differ.

    **Transductive: no**, at meta-test.

    Learned: gamma, beta.

    Reference: Nichol et al., 2018, "On first-order meta-learning algorithms"; named in the TaskNorm paper.
    """

    label = "RN"
    transductive = False
    needs_context = True
    tracks = False

    def moments(self, a: Activations) -> Moments:
        if self.training:
            return a.own
        context = a.context
        alpha = torch.as_tensor(1 - a.is_target / (a.size + 1)).to(context.mean)  # 1 for context examples
        return pooled_moments(context, a.instance, alpha)
