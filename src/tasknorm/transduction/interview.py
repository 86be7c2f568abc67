"""Asking a predictor about batches of targets: on fresh copies, with fixed seeds and copied inputs."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tasknorm.episode import Episode
from tasknorm.transduction.copies import fresh_copy
from tasknorm.transduction.predictors import Predict, checked
from tasknorm.transduction.trials import Trial

STRIDE = 1009  # between the seeds of questions that belong together
SLOW = 2.0  # seconds for two copies; larger predictors are asked themselves
Answer = Tensor  # scores of one batch, (rows of the batch, way), float64


class Interview:
    """Questions to one predictor about one episode.

    A batch is a tensor of numbers into the pool: the targets first, then, if they look alike, the context's examples,
    which serve as further neighbours. Every question passes copies of the inputs, so that a predictor can neither
    change them nor find other targets in their memory.

    Args:
        predict: the predictor. It is asked itself once, about one target, and if a copy answers the same then copies
            are asked from then on.
        episode: the task.
    """

    def __init__(self, predict: Predict, episode: Episode) -> None:
        self.episode = episode
        self.targets = len(episode.target_y)
        alike = episode.context_x.shape[1:] == episode.target_x.shape[1:]
        alike = alike and episode.context_x.dtype == episode.target_x.dtype
        self.pool = torch.cat([episode.target_x, episode.context_x]) if alike else episode.target_x
        self.context_x = episode.context_x
        self.calls = 0
        self.way: int | None = None
        self.refused_alone = ""
        self._original = predict
        self._state: Any = self._pristine()

    @property
    def copies(self) -> bool:
        """Whether copies are asked instead of the predictor itself."""
        return self._state is not None

    def fresh(self) -> Predict:
        """A copy that has been asked nothing, or the predictor itself where none can be made."""
        copied: Predict = fresh_copy(self._state) if self.copies else self._original
        return copied

    def advance(self, seed: int) -> None:
        """Ask about one target before the next copies are made, so that they hold another random state."""
        batch = torch.arange(self.targets if self.refused_alone else 1)
        self.ask(self._state if self.copies else self._original, batch, seed)

    def ask(self, predict: Predict, batch: Tensor, seed: int = 0) -> Answer:
        """The scores of a batch, with every global random generator started from this seed."""
        self.calls += 1
        device = self.episode.target_x.device
        inputs = (self.context_x.clone(), self.episode.context_y.clone(), self.pool[batch.to(device)])
        _seed(seed)
        with torch.no_grad():
            scores = checked(predict(*inputs), len(batch))
        if self.way not in (None, scores.shape[1]):
            raise ValueError(
                f"predict must return as many scores for every batch, got {self.way} and then {scores.shape[1]} for "
                f"a batch of {len(batch)}"
            )
        self.way = scores.shape[1]
        return scores

    def rows(self, predict: Predict, parts: list[Tensor], seed: int = 0) -> Tensor:
        """Scores of the targets in these parts, in the order of the targets' numbers."""
        scores = torch.cat([self.ask(predict, part, seed + STRIDE * int(part[0])) for part in parts])
        return scores[torch.cat(parts).argsort()]

    def both(self, trial: Trial, seed: int = 0, swapped: bool = False) -> tuple[Tensor, Tensor] | None:
        """Scores of the comparable rows of a trial, `(rows, way)` twice; None if it refuses batches of this size."""
        answers = []
        try:
            for batches in (trial.other, trial.one) if swapped else (trial.one, trial.other):
                predict = self.fresh()
                scores = [self.ask(predict, batch, seed + STRIDE * step) for step, batch in enumerate(batches)]
                answers.append(torch.cat(scores)[trial.kept])
        except Exception:
            if self.refused_alone and {len(batch) for batch in trial.one} != {self.targets}:
                return None
            raise
        return (answers[1], answers[0]) if swapped else (answers[0], answers[1])

    @contextlib.contextmanager
    def inputs(self, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """Ask with changed inputs, of context and targets."""
        pool, context_x = self.pool, self.context_x
        try:
            self.pool, self.context_x = change(pool), change(context_x)
            yield
        finally:
            self.pool, self.context_x = pool, context_x

    def _pristine(self) -> Any:
        """A copy that answers as the predictor does, or None where none can be made in reasonable time."""
        began = time.monotonic()
        try:
            copied = fresh_copy(self._original)
            candidate = fresh_copy(copied)
        except Exception:  # whatever a stranger's object raises when copied
            copied = None
        slow = time.monotonic() - began > SLOW
        batch, answer = self._first_question()
        if copied is None or slow:
            return None
        try:
            same = torch.equal(self.ask(candidate, batch), answer)
        except Exception:  # a copy that lacks what the original has
            return None
        return copied if same else None

    def _first_question(self) -> tuple[Tensor, Answer]:
        """One target alone, or all of them if it refuses one; what it said then is in `refused_alone`."""
        alone, everything = torch.tensor([0]), torch.arange(self.targets)
        try:
            return alone, self.ask(self._original, alone)
        except Exception as error:
            try:
                answer = self.ask(self._original, everything)
            except Exception:
                raise error from None
            self.refused_alone = str(error)
            return everything, answer


@contextlib.contextmanager
def random_states_kept() -> Iterator[None]:
    """Set Python's, numpy's and torch's generators back at the end."""
    python, arrays = random.getstate(), np.random.get_state()
    states = [(generator, generator.get_state()) for generator in _generators()]
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)
        for generator, state in states:
            generator.set_state(state)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    for generator in _generators():
        generator.manual_seed(seed)


def _generators() -> list[torch.Generator]:
    return [torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ())]
