"""CNAPs' generator of linear classifiers (Requeima et al., 2019): one class's mean features to its weights."""

from __future__ import annotations

from torch import Tensor, nn


class ClassifierGenerator(nn.Module):
    """`w_c = mlp(nu_c) + nu_c` and `b_c = mlp'(nu_c)` for the mean context features nu_c of a class.

    Args:
        features: size of the features.
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
