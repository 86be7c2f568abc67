"""FiLM layers (Perez et al., 2018), and CNAPs' generator of their parameters (Requeima et al., 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from tasknorm.norms import Norm


class FiLM(nn.Module):
    """`gamma x + beta` for each channel, with the task's own gamma and beta; the identity until they are set.

    gamma and beta are buffers, not learned parameters. They are `(C,)`, or `(tasks, C)` for a batch that holds several
    tasks one after the other.
    """

    gamma: Tensor
    beta: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("gamma", torch.ones(channels))
        self.register_buffer("beta", torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        if self.gamma.ndim == 1:
            return x * self.gamma[:, None, None] + self.beta[:, None, None]
        by_task = x.view(len(self.gamma), -1, *x.shape[1:])
        return (by_task * self.gamma[:, None, :, None, None] + self.beta[:, None, :, None, None]).flatten(0, 1)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *args: Any) -> None:
        """Load the weights; FiLM layers that a net was trained without become the identity."""
        for name, value in (("gamma", torch.ones_like(self.gamma)), ("beta", torch.zeros_like(self.beta))):
            state.setdefault(prefix + name, value)
        super()._load_from_state_dict(state, prefix, *args)


class Filmed(nn.Module):
    """A norm with a FiLM layer behind it."""

    def __init__(self, norm: nn.Module, channels: int) -> None:
        super().__init__()
        self.norm = norm
        self.film = FiLM(channels)

    def forward(self, x: Tensor) -> Tensor:
        filmed: Tensor = self.film(self.norm(x))
        return filmed


def with_film(net: nn.Module) -> nn.Module:
    """Put a FiLM layer behind every batch norm, and every norm of ours, of any network, in place: the same network.

    Load its weights first: a norm `bn1` becomes `bn1.norm`. A norm that is used in two places gets one FiLM layer.

    Raises:
        ValueError: if the network has no such norm.
    """
    found = [
        (name, norm) for name, norm in net.named_modules(remove_duplicate=False) if isinstance(norm, (_BatchNorm, Norm))
    ]
    if not found or not found[0][0]:
        raise ValueError(
            f"FiLM goes behind batch norms and the norms of tasknorm, and {type(net).__name__} has none inside; use a "
            "network that has"
        )
    filmed = {norm: Filmed(norm, norm.num_features) for _, norm in found}
    for name, norm in found:
        parent, _, child = name.rpartition(".")
        setattr(net.get_submodule(parent), child, filmed[norm])
    return net


class Residual(nn.Module):
    """Three residual linear layers of equal width with ReLUs between them, multiplied by a learned vector."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.size = nn.Parameter(torch.empty(width).normal_(std=0.001))

    def forward(self, h: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            h = F.relu(h) if i else h
            h = h + layer(h)
        return h * self.size


class FilmGenerator(nn.Module):
    """gamma and beta of every FiLM layer of a net, generated from the representation of a task.

    All FiLM layers of one stage share a first linear layer. Then `gamma = 1 + r(z)` and `beta = r(z)`, each with a
    network r of its own. r is almost 0 at the start, so that FiLM starts close to the identity.

    Args:
        net: the net whose FiLM layers get the parameters.
        features: size of a task's representation.
    """

    def __init__(self, net: nn.Module, features: int = 64) -> None:
        super().__init__()
        widths = {name: len(layer.gamma) for name, layer in net.named_modules() if isinstance(layer, FiLM)}
        if not widths:
            raise ValueError(
                f"{type(net).__name__} has no FiLM layers, and a FiLM generator needs them; make the net with film=True"
            )
        self.stages = _stages(widths)
        self.shared = nn.ModuleDict(
            {_key(stage): nn.Linear(features, widths[name]) for name, stage in self.stages.items()}
        )
        self.residuals = nn.ModuleDict(
            {_key(f"{name}.{what}"): Residual(width) for name, width in widths.items() for what in ("gamma", "beta")}
        )

    def forward(self, z: Tensor) -> dict[str, Tensor]:
        """gamma and beta by name, each `(tasks, C)`, for representations `z` of `(tasks, features)`.

        Pass them to the net by `functional_call`.
        """
        shared = {stage: F.relu(layer(z)) for stage, layer in self.shared.items()}
        film = {}
        for name, stage in self.stages.items():
            for what, start in (("gamma", 1), ("beta", 0)):
                film[f"{name}.{what}"] = start + self.residuals[_key(f"{name}.{what}")](shared[_key(stage)])
        return film

    def regulariser(self) -> Tensor:
        """The sum of squares of all learned vectors that scale gamma and beta."""
        squares = [module.size.square().sum() for module in self.residuals.values() if isinstance(module, Residual)]
        return torch.stack(squares).sum()


def _stages(widths: Mapping[str, int]) -> dict[str, str]:
    """The stage of each FiLM layer, e.g. `stages.0`; where a stage has layers of several widths, one for each width."""
    stages = {name: ".".join(name.split(".")[:2]) for name in widths}
    inside: dict[str, set[int]] = {}
    for name, stage in stages.items():
        inside.setdefault(stage, set()).add(widths[name])
    return {name: stage if len(inside[stage]) == 1 else f"{stage}.{widths[name]}" for name, stage in stages.items()}


def _key(name: str) -> str:
    return name.replace(".", "-")  # torch allows no dots in a module's name
