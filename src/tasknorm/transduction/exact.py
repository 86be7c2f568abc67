"""Evidence against a predictor that answers the same question always the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from tasknorm.transduction.interview import Interview
from tasknorm.transduction.rounding import Rounding
from tasknorm.transduction.rows import moved, spread, working_precision

NEGLIGIBLE = 1e-4  # of a target's spread
FACTOR = 8  # a few changes of the last bit underestimate what rounding can do with the same kernel,
KERNELS = 32  # and more so with another kernel
VANISHED = 1e-3  # of a movement in float32 or less is left in float64 if it is rounding
ALONE = 8  # targets to ask alone with changed inputs
Result = TypeVar("Result")
FLOAT32, BFLOAT16 = torch.finfo(torch.float32).eps, torch.finfo(torch.bfloat16).eps


class Exact:
    """Compares answers bit by bit where only neighbours changed, and beyond rounding where batch sizes changed.

    Args:
        interview: the predictor.
        everything: scores of all targets at once.
        spread: of each target, `(targets,)`.
        noise: movement of each target between equal questions, `(targets,)`; at most rounding.
    """

    def __init__(self, interview: Interview, everything: Tensor, spread: Tensor, noise: Tensor) -> None:
        self.interview, self.everything, self.spread, self.noise = interview, everything, spread, noise
        self.rounding = Rounding(interview)
        precision = working_precision(everything)
        self.hears = max(precision, FLOAT32)
        coarse = 2 * FACTOR * precision * everything.amax(1).abs() if precision > NEGLIGIBLE else torch.zeros(())
        self.obvious = torch.maximum(NEGLIGIBLE * spread, coarse)  # more than rounding after the scores can explain

    def of_neighbours(self, targets: Tensor, ask: Callable[[], tuple[Tensor, Tensor] | None], what: str) -> str:
        """What gives it away when the neighbours of these targets change between two answers, or nothing.

        Equal shapes mean equal kernels, so honest answers agree to the last bit, or nearly if something harmless such
        as the largest score of the batch was subtracted and added again. If rounding is large and float64 makes the
        difference vanish, then neighbours changed the kernel, by sorting or skipping duplicates for example.
        """
        answers = ask()
        if answers is None:
            return ""
        movement = moved(*answers)
        peeks = movement > self.obvious[targets]
        if not bool(peeks.any()) and bool((movement > 0).any()):
            rounding = torch.maximum(self.rounding.of_all(self.hears), self.noise)
            peeks = movement > FACTOR * at_least_usual(rounding)[targets]
        found = self._sentence(movement, targets, peeks, f"when {what}")
        return "" if found and self._perhaps_rounding(movement, targets) and self._vanishes(movement, ask) else found

    def _perhaps_rounding(self, movement: Tensor, targets: Tensor) -> bool:
        """Whether another kernel could move the scores as much."""
        kernels = KERNELS * at_least_usual(self.rounding.of_all(self.hears))
        return bool((movement <= torch.maximum(kernels, self.obvious)[targets]).all())

    def _vanishes(self, movement: Tensor, ask: Callable[[], tuple[Tensor, Tensor] | None]) -> bool:
        """Whether nothing is left of a movement with inputs in float64."""

        def left(_: Exact) -> bool:
            answers = ask()
            return answers is None or float(moved(*answers).max()) > VANISHED * float(movement.max())

        return self._in_float64(left) is False

    def of_sizes(self, parts: list[Tensor], scores: Tensor, what: str) -> str:
        """What gives it away when the targets come in other batches, or nothing."""
        movement = moved(scores, self.everything)
        other_class = scores.argmax(1) != self.everything.argmax(1)
        peeks = (movement > NEGLIGIBLE * self.spread) | other_class
        if not bool(peeks.any()):
            return ""
        rounding = torch.maximum(self.rounding.of_all(BFLOAT16), self.noise)
        peeks &= movement > KERNELS * at_least_usual(rounding)
        if bool(peeks.any()):
            peeks = self._beyond_rounding(parts, movement, peeks)
        found = self._sentence(movement, torch.arange(len(movement)), peeks, f"when the targets come {what}")
        if found:
            return found

        def again(evidence: Exact) -> str:
            return evidence.of_sizes(parts, self.interview.rows(self.interview.fresh(), parts), what)

        return self._in_float64(again) or ""

    def _in_float64(self, question: Callable[[Exact], Result]) -> Result | None:
        """The answer with inputs in float64, where rounding hides little; None if the predictor does not take them."""
        if self.interview.pool.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return None
        with self.interview.inputs(Tensor.double):
            try:
                everything = self.interview.ask(self.interview.fresh(), torch.arange(self.interview.targets))
                return question(Exact(self.interview, everything, spread(everything), torch.zeros_like(self.noise)))
            except Exception:  # its weights have another dtype, say
                return None

    def _beyond_rounding(self, parts: list[Tensor], movement: Tensor, peeks: Tensor) -> Tensor:
        """Those of the suspicious targets whose scores move by more than rounding moves them in these very batches."""
        suspicious = [part for part in parts if bool(peeks[part].any())][:ALONE]
        asked = torch.cat(suspicious).sort().values
        beyond = movement[asked] > KERNELS * self.rounding.of_parts(suspicious, BFLOAT16)
        result = torch.zeros_like(peeks)
        result[asked] = beyond & peeks[asked]
        return result

    def _sentence(self, movement: Tensor, targets: Tensor, peeks: Tensor, when: str) -> str:
        if not bool(peeks.any()):
            return ""
        relative = (movement / self.spread[targets]).masked_fill(~peeks, -1)
        worst = int(relative.argmax())
        return f"the scores of target {int(targets[worst])} move by {float(relative[worst]):.1e} of their spread {when}"


def at_least_usual(movement: Tensor) -> Tensor:
    """Movements of which none is below the median: a few tries can miss one target's."""
    return movement.clamp(min=float(movement.median()))
