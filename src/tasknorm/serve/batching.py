"""The one thread that computes: requests in flight on one predictor pass through its net together.

The model's thread takes whatever is waiting when it becomes free, so nobody waits for a batch to fill. Images of
different requests go together only where an answer does not depend on its neighbours: never if the predictor is
transductive, and never if a caller asks for the answers to all of its images at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from tasknorm.data import Prepared
from tasknorm.learners import Answer
from tasknorm.serve.store import Entry

Result = TypeVar("Result")


@dataclass
class _Pass:
    """Images of one request that shall pass through a net."""

    entry: Entry
    images: Tensor
    together: bool
    answers: Future[list[Answer]] = field(default_factory=Future)

    @property
    def alone(self) -> bool:
        """Whether no other request's images may pass with these."""
        return self.together or self.entry.transductive

    def joins(self, other: _Pass) -> bool:
        """Whether the images of both may pass together."""
        return self.entry is other.entry and not self.alone and not other.alone

    def __len__(self) -> int:
        return len(self.images)


@dataclass
class _Call:
    """Anything else that needs the model's thread."""

    function: Callable[[], Any]
    result: Future[Any] = field(default_factory=Future)


class Model:
    """The thread in which all nets compute.

    Args:
        batch: most images of one pass, unless one request alone has more.
        threads: cores that torch uses in it.
        passed: is told the number of images of each pass.
    """

    def __init__(self, batch: int, threads: int, passed: Callable[[int], None]) -> None:
        self._batch = batch
        self._passed = passed
        self._waiting: deque[_Pass | _Call] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._work, args=(threads,), name="model", daemon=True)
        self._thread.start()

    async def classify(self, entry: Entry, images: Tensor, *, together: bool) -> list[Answer]:
        """The answers to prepared images, bytes `(images, channels, size, size)`; see `Predictor.classify`."""
        one = _Pass(entry, images, together)
        self._put(one)
        return await asyncio.wrap_future(one.answers)

    async def call(self, function: Callable[[], Result]) -> Result:
        """What a function returns that is called in the model's thread, in its turn."""
        one = _Call(function)
        self._put(one)
        result: Result = await asyncio.wrap_future(one.result)
        return result

    def end(self) -> None:
        """Let the thread end after what is waiting."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()

    def _put(self, one: _Pass | _Call) -> None:
        with self._changed:
            if self._ended:
                raise RuntimeError("the service is stopping")
            self._waiting.append(one)
            self._changed.notify()

    def _work(self, threads: int) -> None:
        torch.get_num_threads()  # ask now: a thread copies torch's default the first time it asks
        torch.set_num_threads(threads)
        while True:
            with self._changed:
                while not self._waiting and not self._ended:
                    self._changed.wait()
                if not self._waiting:
                    return
                taken = self._taken()
            if isinstance(taken, _Call):
                if taken.result.set_running_or_notify_cancel():
                    _fulfil(taken.result, taken.function)
            else:
                self._pass(taken)

    def _taken(self) -> _Call | list[_Pass]:
        """The first that waits, with all others that may pass through the same net together with it."""
        first = self._waiting.popleft()
        if isinstance(first, _Call):
            return first
        taken, images = [first], len(first)
        if first.alone:
            return taken
        left: deque[_Pass | _Call] = deque()
        for one in self._waiting:
            if isinstance(one, _Pass) and one.joins(first) and images + len(one) <= self._batch:
                taken.append(one)
                images += len(one)
            else:
                left.append(one)
        self._waiting = left
        return taken

    def _pass(self, taken: list[_Pass]) -> None:
        taken = [one for one in taken if one.answers.set_running_or_notify_cancel()]
        if len(taken) > 1:
            try:
                together = self._answers(taken)
            except Exception:  # whoever caused it, the others get their answers
                together = None
            if together is not None:
                for one, answers in zip(taken, together, strict=True):
                    one.answers.set_result(answers)
                return
        for one in taken:
            _fulfil(one.answers, partial(self._alone, one))

    def _alone(self, one: _Pass) -> list[Answer]:
        (answers,) = self._answers([one])
        return answers

    def _answers(self, taken: list[_Pass]) -> list[list[Answer]]:
        """The answers to each request, all of whose images pass together."""
        first = taken[0]
        images = first.images if len(taken) == 1 else torch.cat([one.images for one in taken])
        self._passed(len(images))
        found = iter(first.entry.predictor.classify(Prepared(images), together=first.together))
        return [[next(found) for _ in range(len(one))] for one in taken]


def _fulfil(future: Future[Result], function: Callable[[], Result]) -> None:
    """Give a future its result or its error."""
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
