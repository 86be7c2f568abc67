"""Which part of a model is shared between clients of federated learning, and which stays with each client."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from tasknorm.norms.norm import CONTEXT, Norm
from tasknorm.norms.running import RUNNING

Keep = Literal["SiloBN", "FedBN"]


@torch.no_grad()
def split_state(model: nn.Module, keep: Keep = "SiloBN") -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide a model's `state_dict` into what clients share and what each keeps to itself.

    Every entry is in exactly one part, so `model.load_state_dict(shared | local)` loads strictly. The tensors are
    copies, which later training does not change. Norms are those of tasknorm, and torch's batch and instance norms;
    a model without any has nothing local.

    Args:
        model: any module.
        keep: what stays local. `"SiloBN"` (Andreux et al., 2020): the moments alone, running and of contexts, with the
            count of updates; gamma, beta and TaskNorm's alpha are shared. `"FedBN"` (Li et al., 2021): all of every
            norm, gamma, beta and alpha too.

    Returns:
        The shared part and the local part, by name.

    Raises:
        ValueError: if `keep` is neither, or a layer has not seen its first input yet.

    >>> shared, local = split_state(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))
    >>> list(shared), list(local)
    (['0.weight', '0.bias', '1.weight', '1.bias'], ['1.running_mean', '1.running_var', '1.num_batches_tracked'])
    """
    if keep not in ("SiloBN", "FedBN"):
        raise ValueError(f'keep must be "SiloBN" or "FedBN", got {keep!r}')
    norms = {name for name, module in model.named_modules(remove_duplicate=False) if _is_norm(module)}
    shared: dict[str, Any] = {}
    local: dict[str, Any] = {}
    for name, value in model.state_dict().items():
        if is_lazy(value):
            raise ValueError(f"{name} has no shape yet; run the model once on a batch, then split its state")
        module, _, own = name.rpartition(".")
        stays = module in norms and (keep == "FedBN" or own in (*RUNNING, *CONTEXT))
        (local if stays else shared)[name] = value.clone() if isinstance(value, Tensor) else value
    return shared, local


def _is_norm(module: nn.Module) -> bool:
    return isinstance(module, (Norm, _NormBase))
