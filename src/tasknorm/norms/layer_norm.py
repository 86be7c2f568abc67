"""LN, layer normalization: section 3.3."""

from tasknorm.norms.norm import Activations, Moments, Norm


class LN(Norm):
    """Each example is normalised by itself, all channels together.

    mean, variance: those of each example, over channels and space (section 3.3); as `nn.GroupNorm(1, C)`, with a gamma
    and a beta for each channel.

    Context and target examples each see themselves alone, at meta-train and at meta-test alike.

    **Transductive: no.**

    Learned: gamma, beta.

    Reference: Ba et al., 2016, "Layer normalization".
    """

    label = "LN"
    transductive = False
    needs_context = False
    tracks = False

    def moments(self, a: Activations) -> Moments:
        return a.layer
