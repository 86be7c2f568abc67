"""TBN, transductive batch normalization: section 3.2."""

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

    def moments(self, a: Activations) -> Moments:
        return a.own
