"""Telling rounding from peeking: what do scores do when the inputs change in their last bit?

A kernel may add up in another order when its batch has another size, so the same target alone and among others can
differ by rounding. How much that is depends on the computation (squared distances of features far from the origin lose
most of their digits), so no fixed tolerance is right. A change of the inputs in their last bit shakes all rounding
errors on the way, and the scores answer as they would to another order of adding up.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tasknorm.transduction.interview import Interview
from tasknorm.transduction.rows import moved

TRIES = 8  # changes of the last bit
USUAL = 0.9  # of the targets must answer to a change before it counts as one that the predictor can hear


class Rounding:
    """By how much rounding moves each target's scores."""

    def __init__(self, interview: Interview) -> None:
        self.interview = interview
        self.everything = torch.arange(interview.targets)
        dtype = interview.pool.dtype if interview.pool.is_floating_point() else torch.float32
        self.smallest = torch.finfo(dtype).eps
        self._heard: dict[float, tuple[float, Tensor]] = {}

    def of_all(self, limit: float) -> Tensor:
        """Movement of each target's scores among all targets, `(targets,)`, for a change of at most this size."""
        return self._first_heard(limit)[1]

    def of_parts(self, parts: list[Tensor], limit: float) -> Tensor:
        """The same, where the targets of these parts are asked part by part; in the order of the targets' numbers."""
        return self._response(parts, self._first_heard(limit)[0])

    def _first_heard(self, limit: float) -> tuple[float, Tensor]:
        """The smallest change of the inputs that most targets' scores answer to, and their answers.

        A predictor that computes in bfloat16 does not hear the last bit of a float32.
        """
        if limit not in self._heard:
            steps = [torch.finfo(each).eps for each in (torch.float64, torch.float32, torch.float16, torch.bfloat16)]
            steps = [step for step in steps if self.smallest <= step <= limit] or [self.smallest]
            for size in steps:
                response = self._response([self.everything], size)
                if float((response > 0).double().mean()) >= USUAL:
                    break
            self._heard[limit] = size, response
        return self._heard[limit]

    def _response(self, parts: list[Tensor], size: float) -> Tensor:
        still, tries = self.interview.rows(self.interview.fresh(), parts), [torch.zeros(sum(map(len, parts))).double()]
        with self.interview.inputs(_floating):
            if self._integers_only(parts, still):
                return tries[0]
            for seed in range(TRIES):
                with self.interview.inputs(last_bits(size, seed)):
                    tries.append(moved(self.interview.rows(self.interview.fresh(), parts), still))
        return torch.stack(tries).amax(0)

    def _integers_only(self, parts: list[Tensor], scores: Tensor) -> bool:
        """Whether the predictor treats integers unlike the same numbers as floats, which alone have last bits."""
        if self.interview.episode.target_x.is_floating_point():
            return False
        try:
            return not torch.equal(self.interview.rows(self.interview.fresh(), parts), scores)
        except Exception:  # it looks up embeddings, say
            return True


def last_bits(size: float, seed: int) -> Callable[[Tensor], Tensor]:
    """A change of inputs by this relative size, at random."""
    generator = torch.Generator().manual_seed(seed)

    def changed(x: Tensor) -> Tensor:
        noise = torch.rand(x.shape, generator=generator, dtype=torch.float64) * 2 - 1
        return (x.double() * (1 + 2 * size * noise.to(x.device))).to(x.dtype)

    return changed


def _floating(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.float()
