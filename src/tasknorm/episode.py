"""One task: a context set to learn from and a target set to predict (section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor

Targets = Literal["all", "example", "class"]  # how a task's targets come: all at once, one example, one class at a time
TARGETS: tuple[Targets, ...] = ("all", "example", "class")


@dataclass(frozen=True)
class Episode:
    """One few-shot task. Arrays and lists become tensors.

    Args:
        context_x: inputs to learn from, `(context, ...)`.
        context_y: their labels, integers from 0 to way - 1, `(context,)`.
        target_x: inputs to predict, `(target, ...)`.
        target_y: their labels, `(target,)`; known in meta-training only.

    Raises:
        ValueError: if inputs and labels do not pair up, or a set is empty.

    >>> Episode(torch.zeros(5, 1, 28, 28), torch.arange(5), torch.zeros(10, 1, 28, 28), torch.arange(10) % 5).way
    5
    """

    context_x: Tensor
    context_y: Tensor
    target_x: Tensor
    target_y: Tensor

    def __post_init__(self) -> None:
        for field in fields(self):
            if not isinstance(value := getattr(self, field.name), Tensor):
                object.__setattr__(self, field.name, _as_tensor(field.name, value))
        for name, x, y in (
            ("context", self.context_x, self.context_y),
            ("target", self.target_x, self.target_y),
        ):
            if y.ndim != 1 or len(x) != len(y):
                raise ValueError(
                    f"each {name} example needs one label, got {name}_x of shape {tuple(x.shape)} and {name}_y of "
                    f"shape {tuple(y.shape)}; pass labels of shape ({len(x)},)"
                )
            if len(x) == 0:
                raise ValueError(f"an episode needs at least one {name} example, got none")

    @property
    def way(self) -> int:
        """The number of classes: one more than the largest label of the context."""
        return int(self.context_y.max()) + 1

    def to(self, device: torch.device | str) -> Episode:
        """The same episode on another device."""
        return Episode(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


def _as_tensor(name: str, value: object) -> Tensor:
    """An array or a list as a tensor, floats in torch's default dtype: numpy's is twice as wide."""
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be a tensor, an array or a list of numbers, got {error}; convert it") from None
    return tensor.to(torch.get_default_dtype()) if tensor.dtype == torch.float64 else tensor
