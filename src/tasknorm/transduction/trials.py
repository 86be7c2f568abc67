"""How targets are dealt out: pairs of questions in which a target keeps its place and its neighbours change."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SIZES = (2, 3, 4, 5, 8, 12, 20, 33, 50, 100, 200)  # of batches, besides all targets at once


@dataclass(frozen=True)
class Trial:
    """Two sequences of batches of the same sizes, for two copies of a predictor.

    Wherever both have the same target at the same place of the same batch, an honest predictor computes the same: the
    shapes agree, so its kernels do too, and only the other targets differ.
    """

    what: str
    one: list[Tensor]
    other: list[Tensor]

    @property
    def kept(self) -> Tensor:
        """Which rows of all answers laid end to end are comparable."""
        return torch.cat(self.one) == torch.cat(self.other)

    @property
    def targets(self) -> Tensor:
        """The number in the pool of each comparable row."""
        return torch.cat(self.one)[self.kept]


def trials(targets: int, pool: int, generator: torch.Generator, thorough: bool = True) -> list[Trial]:
    """All pairs of questions for an episode of so many targets, with `pool` examples to choose neighbours from.

    Unless thorough, batches of every other size come once, and not with either half kept.
    """
    everything = torch.arange(targets)
    result: list[Trial] = []
    for size in [size for size in SIZES if size < targets] + [targets]:
        batch = everything if size == targets else torch.randperm(targets, generator=generator)[:size]
        half = _half(size, generator)
        for kept in (half, ~half) if thorough or size == targets else (half,):
            for kind in KINDS if size == targets else (KINDS[len(result) % 2],):
                what = f"{int((~kept).sum())} of {size} targets are {kind}"
                result.append(Trial(what, [batch], [replaced(batch, kept, kind, pool, generator)]))
    return [*result, _after_batches(targets, pool, generator), _after_singles(targets, generator)]


KINDS = ("replaced", "copies of one", "in another order")


def replaced(batch: Tensor, kept: Tensor, kind: str, pool: int, generator: torch.Generator) -> Tensor:
    """The batch with other examples wherever it is not kept."""
    rest = batch[~kept]
    if kind == "in another order" and len(rest) > 1:
        new = rest.roll(1)
    elif kind == "copies of one":
        new = torch.randint(pool, (1,), generator=generator).expand(len(rest))
    else:
        new = torch.randint(pool, (len(rest),), generator=generator)
    new = torch.where(new == rest, (new + 1) % pool, new)  # all of them change
    result = batch.clone()
    result[~kept] = new
    return result


def _half(size: int, generator: torch.Generator) -> Tensor:
    """Which half of a batch to keep, at least one and never all."""
    return torch.randperm(size, generator=generator) < max(1, size // 2)


def _after_batches(targets: int, pool: int, generator: torch.Generator) -> Trial:
    """Different neighbours first, then the same targets alone and together: does it remember?"""
    everything = torch.arange(targets)
    half = _half(targets, generator)
    same = everything[half][torch.randperm(int(half.sum()), generator=generator)]
    later = [same[:1], same[-1:], same]
    changed = replaced(everything, half, "replaced", pool, generator)
    return Trial("the targets of an earlier batch are replaced", [everything, *later], [changed, *later])


def _after_singles(targets: int, generator: torch.Generator) -> Trial:
    """Different targets first, one by one, then the same."""
    order = torch.randperm(targets, generator=generator)
    earlier, same = order[: targets // 2], order[targets // 2 :]
    one, other = earlier[:3], earlier[-3:].flip(0)
    if torch.equal(one, other):  # two or three targets: nothing else was there before
        one, other = same[-1:], earlier[:1]
    later = [same[:1], same, same[:1]]
    return Trial("targets that came alone before are replaced", [*one.split(1), *later], [*other.split(1), *later])
