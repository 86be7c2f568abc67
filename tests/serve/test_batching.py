"""One thread computes; requests pass together only where their answers do not depend on each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.service import pictures
from tasknorm.learners import Answer, Predictor
from tasknorm.serve.batching import Model
from tasknorm.serve.store import Entry

Predictors = Callable[..., Predictor]


class Held:
    """A model whose thread waits until it is let go, and which notes the sizes of its passes."""

    def __init__(self, batch: int = 64) -> None:
        self.sizes: list[int] = []
        self.model = Model(batch, 1, self.sizes.append)
        self.go = threading.Event()

    async def all(self, *asked: Coroutine[Any, Any, Any]) -> list[Any]:
        """The results of requests that all wait when the thread begins."""
        first = asyncio.create_task(self.model.call(self.go.wait))
        tasks = [asyncio.create_task(one) for one in asked]
        await asyncio.sleep(0.05)
        self.go.set()
        await first
        return await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def held(batch: int = 64) -> Iterator[Held]:
    one = Held(batch)
    yield one
    one.model.end()


def entry_of(predictor: Predictor) -> Entry:
    return Entry.of("id", predictor)


def close(one: list[Answer], other: list[Answer]) -> bool:
    return all(
        a.name == b.name and all(abs(a.probabilities[n] - b.probabilities[n]) <= 1e-5 for n in a.probabilities)
        for a, b in zip(one, other, strict=True)
    )


def test_requests_pass_together_and_get_the_answers_that_they_get_alone(predictor_of: Predictors) -> None:
    entry = entry_of(predictor_of())
    asked = [pictures(entry.predictor.preparation, count, 50 * count) for count in (1, 3, 2, 1)]
    with held() as model:
        found = asyncio.run(model.all(*(model.model.classify(entry, one.pixels, together=False) for one in asked)))
    assert model.sizes == [7]
    assert all(close(answers, entry.predictor.classify(one)) for answers, one in zip(found, asked, strict=True))


@pytest.mark.parametrize("norm", ["TaskNorm-I", "TaskNorm-L", "MetaBN", "CBN", "RN", "LN", "IN"])
def test_no_answer_depends_on_the_images_of_others(predictor_of: Predictors, norm: str) -> None:
    """The same request beside two quite different ones."""
    entry = entry_of(predictor_of(norm))
    own = pictures(entry.predictor.preparation, 2, 1)
    found = []
    for neighbour in (
        pictures(entry.predictor.preparation, 9, 500).pixels,
        own.pixels[:1].new_full((30, 1, 28, 28), 255),
    ):
        with held() as model:
            answers = asyncio.run(
                model.all(*(model.model.classify(entry, images, together=False) for images in (neighbour, own.pixels)))
            )
        assert model.sizes == [len(neighbour) + 2]
        found.append(answers[1])
    assert close(found[0], found[1])
    assert close(found[0], entry.predictor.classify(own))


@pytest.mark.parametrize("together", [False, True])
def test_a_transductive_predictors_requests_are_never_mixed(predictor_of: Predictors, together: bool) -> None:
    entry = entry_of(predictor_of("TBN"))
    assert entry.transductive
    asked = [pictures(entry.predictor.preparation, count, 50 * count) for count in (2, 4, 3)]
    with held() as model:
        found = asyncio.run(model.all(*(model.model.classify(entry, one.pixels, together=together) for one in asked)))
    assert model.sizes == [2, 4, 3]
    for answers, one in zip(found, asked, strict=True):
        assert close(answers, entry.predictor.classify(one, together=together))
        singles = [entry.predictor.classify(one[n : n + 1])[0] for n in range(len(one))]
        assert close(answers, singles) == (not together)


def test_a_batch_is_bounded_and_predictors_stay_apart(predictor_of: Predictors) -> None:
    one, other = entry_of(predictor_of(seed=0)), entry_of(predictor_of(seed=500))
    images = pictures(one.predictor.preparation, 1, 7).pixels
    with held(batch=3) as model:
        order = [one, other, one, one, one, other]
        found = asyncio.run(model.all(*(model.model.classify(e, images, together=False) for e in order)))
    assert model.sizes == [3, 2, 1]
    alone = {id(e): e.predictor.classify([images[0]]) for e in (one, other)}
    assert all(close(answers, alone[id(e)]) for answers, e in zip(found, order, strict=True))
    with held(batch=1) as model:
        asyncio.run(model.all(*(model.model.classify(one, images, together=False) for _ in range(3))))
    assert model.sizes == [1, 1, 1]


def test_one_request_that_fails_does_not_spoil_the_others(predictor_of: Predictors) -> None:
    entry = entry_of(predictor_of())
    own = pictures(entry.predictor.preparation, 2, 1)
    with held() as model:
        good, bad, called = asyncio.run(
            model.all(
                model.model.classify(entry, own.pixels, together=False),
                model.model.classify(entry, own.pixels.float(), together=False),
                model.model.call(lambda: 1 // 0),
            )
        )
    assert close(good, entry.predictor.classify(own))
    assert isinstance(bad, ValueError)
    assert isinstance(called, ZeroDivisionError)


def test_a_request_that_is_given_up_is_not_computed(predictor_of: Predictors) -> None:
    entry = entry_of(predictor_of())
    images = pictures(entry.predictor.preparation, 2, 1).pixels

    async def given_up() -> None:
        async with asyncio.timeout(0.01):
            await model.model.classify(entry, images, together=False)

    with held() as model:
        (error,) = asyncio.run(model.all(given_up()))
    assert isinstance(error, TimeoutError)
    assert model.sizes == []
