"""The paper's moments as pure functions on small tables, each beside its equation.

A table holds one number per example and channel, `(..., N, C)`; moments that examples or channels share have size 1
along that axis and broadcast. `IN`, `LN`, `BN` are the paper's indices for instance, layer and batch moments. A
variance too large for its number format is infinite, never NaN; what is divided by its root is then 0, as in torch's
batch norm.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

_ALMOST_NONE = 1e-30  # a weight that no finite variance can feel


class Moments(NamedTuple):
    """A mean and a variance, of one shape."""

    mean: Tensor
    var: Tensor


def batch_moments(instance: Moments, members: Tensor | None = None, size: Tensor | int = 0) -> Moments:
    """Moments of a set of examples, from those of each example (section 2.2).

    By the law of total variance, with `mu_b` and `sigma_b^2` the instance moments of example b:

        mu_BN      = mean_b mu_b
        sigma_BN^2 = mean_b (sigma_b^2 + (mu_b - mu_BN)^2)

    Args:
        instance: moments of each example, `(..., N, C)`.
        members: which examples are in the set, boolean, `(N, 1)`; None is all of them. The others have no influence,
            whatever they hold.
        size: how many members there are.

    Returns:
        Moments of shape `(..., 1, C)`.
    """
    if members is None:
        mean = instance.mean.mean(-2, keepdim=True)
        return Moments(mean, _second_moment(instance, mean).mean(-2, keepdim=True))
    mean = torch.where(members, instance.mean, 0).sum(-2, keepdim=True) / size
    return Moments(mean, torch.where(members, _second_moment(instance, mean), 0).sum(-2, keepdim=True) / size)


def layer_moments(instance: Moments) -> Moments:
    """Moments of an example over all its channels, `(..., N, 1)` (LN, section 3.3); the same law over channels."""
    mean = instance.mean.mean(-1, keepdim=True)
    return Moments(mean, _second_moment(instance, mean).mean(-1, keepdim=True))


def group_moments(instance: Moments, num_groups: int) -> Moments:
    """Moments of an example over each group of channels, `(..., N, C)` (GN, appendix A.2)."""
    channels = instance.mean.shape[-1]
    groups = layer_moments(Moments(*(table.unflatten(-1, (num_groups, -1)) for table in instance)))
    size = channels // num_groups
    return Moments(*(table.expand(*table.shape[:-1], size).flatten(-2) for table in groups))


def pooled_moments(first: Moments, second: Moments, alpha: Tensor) -> Moments:
    """`first` and `second` pooled with weights alpha and 1 - alpha (equations 10 and 11, section 4.2).

        mu      = alpha mu_1 + (1 - alpha) mu_2
        sigma^2 = alpha (sigma_1^2 + (mu_1 - mu)^2) + (1 - alpha) (sigma_2^2 + (mu_2 - mu)^2)

    Since `mu_1 - mu = (1 - alpha) (mu_1 - mu_2)` and `mu_2 - mu = -alpha (mu_1 - mu_2)`, the two squares of the
    variance add up to `alpha (1 - alpha) (mu_1 - mu_2)^2`, which is how it is computed. Neither weight is quite 0: it
    could meet an infinite variance.
    """
    difference = first.mean - second.mean
    weight, rest = alpha.clamp(min=_ALMOST_NONE), (1 - alpha).clamp(min=_ALMOST_NONE)
    var = torch.addcmul(rest * second.var, weight, first.var)
    return Moments(
        torch.lerp(second.mean, first.mean, alpha),
        torch.addcmul(var, weight * rest, difference * difference),
    )


def renormalised_moments(batch: Moments, running: Moments, r_max: Tensor, d_max: Tensor, eps: float) -> Moments:
    """Moments whose normalization is batch renormalization (BRN, appendix A.1).

        r = stop_grad clip(sigma_BN / sigma_r, 1/r_max, r_max)
        d = stop_grad clip((mu_BN - mu_r) / sigma_r, -d_max, d_max)
        r (a - mu_BN) / sigma_BN + d  =  (a - (mu_BN - d sigma_BN / r)) / (sigma_BN / r)

    Differs from the paper: sigma is sqrt(sigma^2 + eps) throughout, since the gradient of the paper's sigma + eps is
    infinite where a channel is constant.
    """
    sigma = torch.sqrt(batch.var + eps)
    running_sigma = torch.sqrt(running.var + eps)
    r = torch.clamp((sigma.detach() / running_sigma).nan_to_num(1.0), 1 / r_max, r_max)
    d = torch.clamp((batch.mean.detach() - running.mean) / running_sigma, -d_max, d_max)
    correction = torch.where(sigma < math.inf, d * sigma / r, 0)  # what is divided by an infinite sigma is 0 anyway
    return Moments(batch.mean - correction, (batch.var + eps) / (r * r) - eps)


def unbiased(moments: Moments, count: Tensor | float) -> Moments:
    """The same moments with the variance divided by count - 1 in place of count; unchanged where the count is 1."""
    if isinstance(count, Tensor):
        return Moments(moments.mean, moments.var * (count / (count - 1).clamp(min=1)))
    return Moments(moments.mean, moments.var * (count / max(count - 1, 1)))


def _second_moment(instance: Moments, mean: Tensor) -> Tensor:
    """`sigma_b^2 + (mu_b - mean)^2`: the mean square distance of each row from `mean`."""
    deviation = instance.mean - mean
    return torch.addcmul(instance.var, deviation, deviation)
