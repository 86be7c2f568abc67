"""GN, group normalization: appendix A.2."""

from __future__ import annotations

import math
from typing import Any

from tasknorm.norms.norm import Activations, Moments, Norm


class GN(Norm):
    """Each example is normalised by itself, in groups of channels.

    mean, variance: those of each example and group of channels, over space (appendix A.2). One group is LN; as many as
    channels are IN.

    Context and target examples each see themselves alone, at meta-train and at meta-test alike.

    **Transductive: no.**

    Learned: gamma, beta.

    Reference: Wu and He, 2018, "Group normalization".

    Args:
        num_features: channels C.
        num_groups: into how many groups the channels are divided; by default the greatest common divisor of 32 and C.
        **options: as for `Norm`.
    """

    label = "GN"
    transductive = False
    needs_context = False
    tracks = False

    def __init__(self, num_features: int, *, num_groups: int | None = None, **options: Any) -> None:
        super().__init__(num_features, **options)
        self.num_groups = math.gcd(32, num_features) if num_groups is None else num_groups
        if self.num_groups < 1 or num_features % self.num_groups:
            raise ValueError(
                f"num_groups must divide the channels, got {self.num_groups} groups of {num_features} channels; "
                f"{math.gcd(32, num_features)} would do"
            )

    @property
    def options(self) -> dict[str, Any]:
        usual = self.num_groups == math.gcd(32, self.num_features)
        return super().options | ({} if usual else {"num_groups": self.num_groups})

    def moments(self, a: Activations) -> Moments:
        return a.group(self.num_groups)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, num_groups={self.num_groups}"
