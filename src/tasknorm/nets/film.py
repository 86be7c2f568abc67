"""FiLM: Perez et al., 2018; generated from a task's representation as in CNAPs (Requeima et al., 2019)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class FiLM(nn.Module):
    """`gamma x + beta` for each channel: a task's own numbers, not learned ones, and at first the identity.

    gamma and beta are `(C,)`, or `(tasks, C)` for a batch of as many tasks laid end to end.
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
        """Weights of a net that was trained without FiLM load as the identity."""
        for name, value in (("gamma", torch.ones_like(self.gamma)), ("beta", torch.zeros_like(self.beta))):
            state.setdefault(prefix + name, value)
        super()._load_from_state_dict(state, prefix, *args)


class Residual(nn.Module):
    """Three linear layers of one width, each added to its input, with ReLUs between them; times a learned vector."""

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
    """gamma and beta of every FiLM layer of a net, from the representation of a task.

    The layers of one stage share a first layer, by their width; `gamma = 1 + r(z)`, `beta = r(z)`, each with a network
    r of its own, which is almost 0 at the start.

    Args:
        net: the net whose FiLM layers are to be filled.
        features: size of a task's representation.
    """

    def __init__(self, net: nn.Module, features: int = 64) -> None:
        super().__init__()
        widths = {name: len(layer.gamma) for name, layer in net.named_modules() if isinstance(layer, FiLM)}
        if not widths:
            raise ValueError(
                f"a FiLM generator needs a net with FiLM layers, and {type(net).__name__} has none; make it with "
                "film=True"
            )
        self.stages = {name: ".".join(name.split(".")[:2]) for name in widths}  # e.g. stages.0
        self.shared = nn.ModuleDict(
            {_key(stage): nn.Linear(features, widths[name]) for name, stage in self.stages.items()}
        )
        self.residuals = nn.ModuleDict(
            {_key(f"{name}.{what}"): Residual(width) for name, width in widths.items() for what in ("gamma", "beta")}
        )

    def forward(self, z: Tensor) -> dict[str, Tensor]:
        """What to hand to the net by `functional_call`: `(tasks, C)` by name, for `z` of `(tasks, features)`."""
        shared = {stage: F.relu(layer(z)) for stage, layer in self.shared.items()}
        film = {}
        for name, stage in self.stages.items():
            for what, start in (("gamma", 1), ("beta", 0)):
                film[f"{name}.{what}"] = start + self.residuals[_key(f"{name}.{what}")](shared[_key(stage)])
        return film

    def regulariser(self) -> Tensor:
        """The squares of all the learned vectors that scale gamma and beta, summed."""
        squares = [module.size.square().sum() for module in self.residuals.values() if isinstance(module, Residual)]
        return torch.stack(squares).sum()


def _key(name: str) -> str:
    return name.replace(".", "-")  # a module's name holds no dots
