"""BRN, batch renormalization: appendix A.1."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tasknorm.moments import renormalised_moments
from tasknorm.norms.norm import Activations, Moments, Norm


class BRN(Norm):
    """Batch normalization whose training is corrected towards the running moments.

    mean, variance: those of the set being normalised, corrected by r and d, at meta-train; running moments at
    meta-test (appendix A.1).

        r = stop_grad clip(sigma_BN / sigma_r, 1/r_max, r_max)
        d = stop_grad clip((mu_BN - mu_r) / sigma_r, -d_max, d_max)

    Context and target each see their own set at meta-train, corrected with the running moments as they were before
    that set's update; targets with the update of their own task's context, whatever other tasks are in the pass. At
    meta-test both see the running moments.

    After averaging weights, average the running moments anew with `tasknorm.norms.averaged_running`; torch's
    `update_bn` passes this norm by.

    **Transductive: no**, at meta-test.

    Learned: gamma, beta.

    Differs from the paper: sigma is sqrt(variance + eps) throughout (see `tasknorm.moments`). The paper gives no
    schedule; this is Ioffe's, which counts updates: r_max = 1 and d_max = 0 at first, then linearly to `d_max` at 5/8
    and to `r_max` at the whole of `schedule`.

    Reference: Ioffe, 2017, "Batch renormalization: towards reducing minibatch dependence in batch-normalized models".

    Args:
        num_features: channels C.
        r_max, d_max: the bounds at the end of the schedule.
        schedule: updates until then, two for each meta-training pass; make it the length of your run if that is
            shorter. The bounds begin to grow after an eighth of it. 0 applies them from the first update.
        **options: as for `Norm`.
    """

    label = "BRN"
    transductive = False
    needs_context = False
    by_running = True

    def __init__(
        self,
        num_features: int,
        *,
        r_max: float = 3.0,
        d_max: float = 5.0,
        schedule: int = 40_000,
        **options: Any,
    ) -> None:
        super().__init__(num_features, **options)
        if r_max < 1 or d_max < 0 or schedule < 0:
            raise ValueError(
                f"BRN needs r_max >= 1, d_max >= 0 and schedule >= 0, got r_max={r_max}, d_max={d_max}, "
                f"schedule={schedule}"
            )
        self.r_max, self.d_max, self.schedule = r_max, d_max, schedule

    @property
    def options(self) -> dict[str, Any]:
        return super().options | {"r_max": self.r_max, "d_max": self.d_max, "schedule": self.schedule}

    def moments(self, a: Activations) -> Moments:
        if not self.training:
            return self.running
        corrected = []
        running = self.running_before
        for batch in a.batches:
            corrected.append(renormalised_moments(a.normalising(batch), running, *self.bounds(), self.eps))
            running = self.track(batch)
        return a.by_set(*corrected)

    def bounds(self) -> tuple[Tensor, Tensor]:
        """r_max and d_max after the updates so far."""
        updates = self.num_batches_tracked.to(self.running.mean.dtype)
        progress = updates / self.schedule if self.schedule else torch.ones_like(updates)
        r_grown, d_grown = (((progress - 1 / 8) / span).clamp(0, 1) for span in (7 / 8, 4 / 8))
        return 1 + (self.r_max - 1) * r_grown, self.d_max * d_grown
