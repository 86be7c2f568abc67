"""Running moments averaged anew for new weights, as those of stochastic weight averaging: Izmailov et al., 2018,
"Averaging weights leads to wider optima and better generalization"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from tasknorm.norms.norm import Norm
from tasknorm.norms.running import RUNNING


@contextmanager
def averaged_running(model: nn.Module) -> Iterator[nn.Module]:
    """The running moments begin anew, and become the plain average over all sets that pass inside.

    What `torch.optim.swa_utils.update_bn` does for torch's batch norms, and only for them, after weights were averaged.
    The model is in `train()` inside, and back in its modes afterwards. A norm that nothing passed keeps its moments, as
    do all if the block ends with an error. The count of updates goes on, since BRN's schedule follows it.

    Args:
        model: a model with norms that keep running moments (CBN, BRN, TaskNorm-r), or a learner with such a model.

    Raises:
        ValueError: if no norm of the model keeps running moments.

    >>> from tasknorm import NORMS, contexts
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), NORMS["TaskNorm-r"](8))
    >>> with averaged_running(model), torch.no_grad():
    ...     for batch in torch.rand(10, 5, 3, 16, 16):
    ...         with contexts(model, tasks=1):
    ...             features = model(batch)
    """
    norms = [module for module in model.modules() if isinstance(module, Norm) and module.tracks]
    if not norms:
        raise ValueError(
            "averaged_running needs norms that keep running moments (CBN, BRN, TaskNorm-r), and "
            f"{type(model).__name__} has none; for torch's own batch norms use torch.optim.swa_utils.update_bn"
        )
    before = [_Before(norm) for norm in norms]
    modes = [(module, module.training) for module in model.modules()]
    model.train()
    succeeded = False
    try:
        yield model
        succeeded = True
    finally:
        for one in before:
            one.end(succeeded)
        for module, training in modes:
            module.training = training


class _Before:
    """A norm's running moments and momentum before they were averaged anew."""

    @torch.no_grad()
    def __init__(self, norm: Norm) -> None:
        self.norm, self.momentum = norm, norm.momentum
        self.moments = {name: getattr(norm, name).clone() for name in RUNNING}
        norm.momentum = None  # the plain average
        norm.num_batches_tracked.zero_()

    @torch.no_grad()
    def end(self, succeeded: bool) -> None:
        norm = self.norm
        norm.momentum = self.momentum
        if succeeded and norm.num_batches_tracked > 0:
            norm.num_batches_tracked.add_(self.moments["num_batches_tracked"])
        else:
            for name, value in self.moments.items():
                getattr(norm, name).copy_(value)
