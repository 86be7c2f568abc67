"""Baseline: the frozen batch normalization of a pretrained network, section 5.2."""

from __future__ import annotations

from tasknorm.kernels import is_traced
from tasknorm.norms.norm import Activations, Moments, Norm


class Baseline(Norm):
    """Normalization with the running moments of a pretrained network, which nothing changes.

    mean, variance: the running moments that were there when the norm was converted or loaded (Baseline column of
    section 5.2's table).

    Context and target both see the running moments, at meta-train and at meta-test alike.

    **Transductive: no.**

    Learned: gamma, beta.

    Reference: Requeima et al., 2019, "Fast and flexible multi-task classification using conditional neural adaptive
    processes".
    """

    label = "Baseline"
    transductive = False
    needs_context = False
    by_running = True
    tracks = False

    def moments(self, a: Activations) -> Moments:
        if not is_traced() and not self.has_running:
            raise RuntimeError(
                "Baseline normalises with the running moments of a trained network, and there are none; convert a "
                'trained network (tasknorm.convert(model, "Baseline")) or load its state_dict'
            )
        return self.running
