"""CBN, conventional batch normalization: section 3.1."""

from __future__ import annotations

from torch import Tensor

from tasknorm.norms.norm import Activations, Moments, Norm


class CBN(Norm):
    """Batch normalization as everywhere else: batch moments in training, running moments in testing.

    mean, variance: those of the set being normalised at meta-train; running averages of them at meta-test
    (section 3.1).

    Context and target each see their own set at meta-train and update the running moments, the context first. At
    meta-test both see the running moments.

    After averaging weights, average the running moments anew with `tasknorm.norms.averaged_running`; torch's
    `update_bn` passes this norm by.

    **Transductive: no**, at meta-test.

    Learned: gamma, beta.

    Reference: Ioffe and Szegedy, 2015, "Batch normalization: accelerating deep network training by reducing internal
    covariate shift".

    Args:
        num_features: channels C.
        **options: as for `Norm`.
    """

    label = "CBN"
    transductive = False
    needs_context = False
    by_running = True

    def moments(self, a: Activations) -> Moments:
        if not self.training:
            return self.running
        for batch in a.batches:
            self.track(batch)
        return a.own

    def normalised(self, x: Tensor) -> Tensor:
        found = self.by_own_sets(x) if self.training and self.twice else None
        if found is None:
            return super().normalised(x)
        y, batch = found
        self.track(batch)
        return y
