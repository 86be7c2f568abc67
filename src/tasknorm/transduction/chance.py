"""Could chance alone explain it? A randomisation test for predictors that are random."""

from __future__ import annotations

import torch
from torch import Tensor


def p_value(pairs: list[tuple[Tensor, Tensor]]) -> float:
    """The probability that pairs of answers differ this consistently if both come from one distribution.

    Each pair of tables holds one trial, `(rounds, entries)`: the answers of every round, with and without a change. If
    the change changes nothing, then either answer of a round could have been the other, so every change of sign of the
    rounds' differences was as likely. The share of such changes under which the differences add up to as much is the
    p-value: it is at most p with a probability of at most p, whatever the noise is like. Means and squared deviations
    are compared, every trial is put on its own scale, and the trial that moves most counts.
    """
    signs = _all_signs(len(pairs[0][0]))
    sums = [_standardised(signs, difference) for pair in pairs for difference in _features(*pair)]
    greatest = torch.stack(sums).amax(0)
    return float((greatest >= greatest[0] * (1 - 1e-9)).double().mean()) if float(greatest[0]) > 0 else 1.0


def _all_signs(rounds: int) -> Tensor:
    """Every change of sign of the rounds, `(2 ** (rounds - 1), rounds)`, none first; opposites would add up alike."""
    numbers = torch.arange(2 ** (rounds - 1))[:, None]
    return 1.0 - 2.0 * ((numbers >> torch.arange(rounds)) & 1).double()


def _features(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """What is compared of two answers, each `(rounds, entries)`: the scores and their squared deviations."""
    centre = (one.mean(0) + other.mean(0)) / 2
    return one - other, (one - centre) ** 2 - (other - centre) ** 2


def _standardised(signs: Tensor, difference: Tensor) -> Tensor:
    """How far the signed differences add up, for each row of signs, in deviations from the usual."""
    differing = difference[:, (difference != 0).any(0)]
    directions = differing / differing.norm(dim=0)
    total = ((signs @ (directions @ directions.T)) * signs).sum(1)  # the squared sums of all entries, added up
    result: Tensor = (total - total.mean()) / total.std().clamp(min=1e-12)
    return result
