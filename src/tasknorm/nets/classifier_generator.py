"""CNAPs' classifier generator (Requeima et al., 2019): it maps the mean features of a class to the class's weights."""

from __future__ import annotations

from torch import Tensor, nn


class ClassifierGenerator(nn.Module):
    """Weights `w_c = mlp(nu_c) + nu_c` and bias `b_c = mlp'(nu_c)` of a class with mean context features nu_c.

    Args:
        features: number of features.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = _mlp(features, features)
        self.bias = _mlp(features, 1)

    def forward(self, means: Tensor) -> tuple[Tensor, Tensor]:
        """Weights `(..., way, features)` and biases `(..., way)` for class means `(..., way, features)`."""
        return self.weight(means) + means, self.bias(means).squeeze(-1)


def _mlp(features: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(features, width), nn.ELU(), nn.Linear(width, width), nn.ELU(), nn.Linear(width, width)
    )
