"""Evidence against a predictor that is random: the same experiments, repeated, and a test of whether it is chance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tasknorm.transduction.chance import p_value
from tasknorm.transduction.exact import BFLOAT16, KERNELS, at_least_usual
from tasknorm.transduction.interview import Interview
from tasknorm.transduction.rounding import Rounding
from tasknorm.transduction.rows import centred, working_precision
from tasknorm.transduction.trials import Trial

ROUNDS = 14  # 2 ** 13 changes of sign: enough for p-values far below the false-alarm rate
FALSE_ALARM = 1e-3  # probability that an honest random predictor is said to peek
DOUBT = 1e-2  # a p-value below it is too small to acquit
RESOLUTION = 0.1  # of the spread: a mean difference that is known less well than this leaves room to peek
ALONE = 8  # targets to ask alone in every round
NEGLIGIBLE = 1e-5  # of the spread: rounding, where only neighbours change,
SIZES_NEGLIGIBLE = 1e-4  # and where the sizes of batches do
LOWEST = -1e3  # spreads below the best: classes that are padded or ruled out


@dataclass(frozen=True)
class Chance:
    """What the repeated experiments say.

    Args:
        p: twice the smaller of two p-values, of changed neighbours and of changed batch sizes, at most 1.
        peeks: whether it is below the false-alarm rate, and the movement more than rounding.
        resolution: standard error of the mean difference between neighbours, relative to the spread.
    """

    p: float
    peeks: bool
    resolution: float

    @property
    def undecided(self) -> bool:
        """Whether the noise leaves room for peeking."""
        return not self.peeks and (self.p < DOUBT or self.resolution > RESOLUTION)


class Pairs:
    """Answers to two questions, round by round, relative to the spread."""

    def __init__(self, spread: Tensor) -> None:
        self.spread = spread
        self.rounds: list[tuple[Tensor, Tensor]] = []

    def add(self, one: Tensor, other: Tensor) -> None:
        """One round's scores, `(targets, way)` each."""
        relative = [(centred(scores) / self.spread[:, None]).clamp(min=LOWEST) for scores in (one, other)]
        self.rounds.append((relative[0].flatten(), relative[1].flatten()))

    def tables(self) -> tuple[Tensor, Tensor]:
        """Both questions' answers, `(rounds, entries)`."""
        one, other = zip(*self.rounds, strict=True)
        return torch.stack(one), torch.stack(other)

    def difference(self) -> Tensor:
        """What the questions differ by in each round, `(rounds, targets, way)`."""
        one, other = self.tables()
        return (one - other).reshape(len(one), len(self.spread), -1)


def chance(interview: Interview, trials: list[Trial], spread: Tensor) -> Chance:
    """Repeat all trials, and targets alone against all at once, with other noise in every round.

    Both questions of a pair start from the same random state, so that noise that follows a seed cancels; other noise is
    averaged.
    """
    everything = torch.arange(interview.targets)
    generator = torch.Generator().manual_seed(1)
    alone = torch.randperm(interview.targets, generator=generator)[:ALONE].sort().values
    neighbours, sizes = [Pairs(spread[trial.targets]) for trial in trials], Pairs(spread[alone])
    for seed in range(1, ROUNDS + 1):
        swapped = torch.randint(2, (len(trials) + 1,), generator=generator).bool().tolist()  # so that no order counts
        for trial, pairs, swap in zip(trials, neighbours, swapped, strict=False):
            answers = interview.both(trial, seed, swap)
            if answers is not None:
                pairs.add(*answers)
        together = interview.ask(interview.fresh(), everything, seed)
        if not interview.refused_alone:
            one = torch.cat([interview.rows(interview.fresh(), [target], seed) for target in alone.split(1)])
            if swapped[-1]:
                together = interview.ask(interview.fresh(), everything, seed)
            sizes.add(one, together[alone])
        interview.advance(seed)
    return _conclusion([pairs for pairs in neighbours if pairs.rounds], sizes, interview, alone, together)


def _conclusion(neighbours: list[Pairs], sizes: Pairs, interview: Interview, alone: Tensor, scores: Tensor) -> Chance:
    precision = working_precision(scores)
    coarse = 16 * precision * float(scores.amax(1).abs().max()) / float(sizes.spread.median())
    negligible = max(NEGLIGIBLE, coarse if precision > SIZES_NEGLIGIBLE else 0.0)
    p, peeks, resolution = 1.0, False, 0.0
    if max(float(pairs.difference().abs().max()) for pairs in neighbours) > negligible:
        p = p_value([pairs.tables() for pairs in neighbours])
        peeks = max(float(pairs.difference().mean(0).abs().max()) for pairs in neighbours) > negligible
        resolution = max(_standard_error(pairs.difference()) for pairs in neighbours)
    peeks = peeks and 2 * p <= FALSE_ALARM
    if sizes.rounds and not peeks:
        p_sizes = p_value([sizes.tables()])
        rounding = at_least_usual(Rounding(interview).of_all(BFLOAT16))[alone] / sizes.spread
        movement = sizes.difference().mean(0).abs().amax(1)
        beyond = bool((movement > (KERNELS * rounding).clamp(min=SIZES_NEGLIGIBLE)).any())
        p, peeks = min(p, p_sizes) if beyond else p, beyond and 2 * p_sizes <= FALSE_ALARM
    return Chance(min(1.0, 2 * p), peeks, resolution)


def _standard_error(difference: Tensor) -> float:
    """Typical uncertainty of the mean over rounds, of `(rounds, targets, way)`."""
    return float((difference.var(0).mean() / len(difference)).sqrt())
