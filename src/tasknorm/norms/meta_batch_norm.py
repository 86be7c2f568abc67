"""MetaBN, meta-batch normalization: section 4.1."""

from tasknorm.norms.norm import Activations, Moments, Norm


class MetaBN(Norm):
    """Batch normalization of a whole task with its context's moments.

    mean, variance: the batch moments of the context set (section 4.1).

    Context and target both see the context set, at meta-train and at meta-test alike.

    **Transductive: no.**

    Learned: gamma, beta.

    Reference: Bronskill et al., 2020, "TaskNorm: rethinking batch normalization for meta-learning".
    """

    label = "MetaBN"
    transductive = False
    needs_context = True
    tracks = False

    def moments(self, a: Activations) -> Moments:
        return a.context
