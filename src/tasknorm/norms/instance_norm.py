"""IN, instance normalization: section 3.3."""

from tasknorm.norms.norm import Activations, Moments, Norm


class IN(Norm):
    """Each example's channel is normalised by itself.

    mean, variance: those of each example and channel, over space (section 3.3).

    Context and target examples each see themselves alone, at meta-train and at meta-test alike.

    **Transductive: no.**

    Learned: gamma, beta.

    Reference: Ulyanov et al., 2016, "Instance normalization: the missing ingredient for fast stylization".
    """

    label = "IN"
    transductive = False
    needs_context = False
    tracks = False

    def moments(self, a: Activations) -> Moments:
        return a.instance
