"""What the service does: make predictors, add examples, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from tasknorm.data import MAX_PIXELS, Preparation, Prepared, pixels_said
from tasknorm.errors import DataError, WeightsError
from tasknorm.learners import Predictor
from tasknorm.machine import cores, single_threaded_pool
from tasknorm.serve.admission import Admission
from tasknorm.serve.batching import Model
from tasknorm.serve.bodies import Upload, read_uploads
from tasknorm.serve.limits import Limits
from tasknorm.serve.metrics import Metrics
from tasknorm.serve.refusals import RefusedError, told
from tasknorm.serve.schemas import ImageAnswer, Prediction, PredictorAnswer
from tasknorm.serve.store import Entry, Store

SMALL = 1 << 18  # bytes of a body

Adapt = Callable[[Mapping[str, Prepared]], Predictor]


class Service:
    """Predictors that a run's learner makes, kept in a store.

    Images are decoded by a pool of threads and pass through nets in the model's one thread, which uses all cores.

    Args:
        preparation: how the run's images are prepared.
        adapt: makes a predictor from prepared context images by class.
        store: keeps the predictors.
        limits: of the service.
        threads: cores that torch uses.
    """

    def __init__(
        self, preparation: Preparation, adapt: Adapt, store: Store, limits: Limits, threads: int | None = None
    ) -> None:
        self.limits, self.store = limits, store
        self.metrics = Metrics()
        self.admission = Admission(limits)
        self._preparation, self._adapt = preparation, adapt
        self._pool = single_threaded_pool(cores())
        self._model = Model(limits.batch, threads or cores(), self.metrics.batch)
        numbers: dict[str, tuple[str, Callable[[], float]]] = {
            "tasknorm_predictors": ("Predictors in the folder.", lambda: len(store)),
            "tasknorm_predictors_in_memory": ("Predictors in memory.", lambda: store.in_memory),
            "tasknorm_requests_inside": ("Requests that wait or compute.", lambda: self.admission.inside),
            "tasknorm_requests_turned_away_total": ("Requests that found no place.", lambda: self.admission.refused),
            "tasknorm_body_bytes": ("Bytes of bodies that are held.", lambda: self.admission.body_bytes),
        }
        for name, (text, value) in numbers.items():
            self.metrics.number(name, text, value)

    async def read(self, content_type: str, body: bytes, *, by_class: bool) -> list[Upload]:
        """The images of a body (see `bodies`); a large one is read by the pool, so that nobody waits for it."""
        read = partial(read_uploads, content_type, body, self.limits, by_class=by_class)
        if len(body) <= SMALL:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self._pool, read)

    async def create(self, uploads: Sequence[Upload]) -> PredictorAnswer:
        """Make a predictor from context images by class."""
        with self.admission.place():
            self.store.check_room()
            self._check_context(len({upload.field for upload in uploads}), len(uploads))
            images = await self._by_class(uploads, self._preparation)
            predictor = await self._model.call(lambda: self._adapt(images))
            entry = await self._model.call(lambda: self.store.add(predictor))
            return PredictorAnswer.of(entry)

    async def add(self, id: str, uploads: Sequence[Upload]) -> PredictorAnswer:
        """Add examples to a predictor."""
        with self.admission.place():
            entry = await self._entry(id)
            images = await self._by_class(uploads, _preparation(entry))
            entry = await self._model.call(lambda: self._with(id, images))
            return PredictorAnswer.of(entry)

    async def predict(self, id: str, uploads: Sequence[Upload], *, together: bool) -> Prediction:
        """The classes of images."""
        with self.admission.place():
            entry = await self._entry(id)
            together = together and entry.transductive  # otherwise the answers are the same
            images = await self._decoded(uploads, _preparation(entry))
            answers = await self._model.classify(entry, images, together=together)
        return Prediction(
            together=together,
            transductive=entry.transductive,
            answers=[ImageAnswer.of(upload.file, one) for upload, one in zip(uploads, answers, strict=True)],
        )

    async def describe(self, id: str) -> PredictorAnswer:
        """What there is to say of a predictor."""
        entry = self.store.remembered(id)
        if entry is None:
            with self.admission.place():
                entry = await self._entry(id)
        return PredictorAnswer.of(entry)

    async def remove(self, id: str) -> None:
        """Delete a predictor."""
        self.store.remembered(id)
        await self._model.call(lambda: self.store.remove(id))

    def end(self) -> None:
        """Finish what has begun, and stop."""
        self._model.end()
        self._pool.shutdown(cancel_futures=True)

    async def _entry(self, id: str) -> Entry:
        if (entry := self.store.remembered(id)) is not None:
            return entry
        try:
            return await self._model.call(lambda: self.store.entry(id))
        except WeightsError as error:
            fix = "delete it (DELETE /predictors/{id}) and make it again"
            raise RefusedError(500, f"the predictor's file must be whole ({error})", id, fix) from None

    def _with(self, id: str, images: Mapping[str, Prepared]) -> Entry:
        """A predictor with more examples: a fresh one, so that what is being served never changes."""
        entry = Entry.of(id, self.store.loaded(id))
        held = sum(count or 0 for count in entry.classes.values())
        self._check_context(len({*entry.classes, *images}), held + sum(map(len, images.values())))
        return self.store.replace(id, entry.predictor.extend(images))

    def _check_context(self, classes: int, images: int) -> None:
        if not 2 <= classes <= self.limits.classes:
            fix = "send images of at least two classes" if classes < 2 else "use fewer classes"
            raise RefusedError(422, f"a predictor has 2 to {self.limits.classes} classes", classes, fix)
        if images > self.limits.context:
            raise RefusedError(
                413, f"a predictor learns from at most {self.limits.context} images", images, "send fewer"
            )

    async def _by_class(self, uploads: Sequence[Upload], preparation: Preparation) -> dict[str, Prepared]:
        """Images for the net by class, in the order in which the classes came first."""
        pixels = await self._decoded(uploads, preparation)
        rows: dict[str, list[int]] = {}
        for row, upload in enumerate(uploads):
            rows.setdefault(upload.field, []).append(row)
        return {name: Prepared(pixels[numbers]) for name, numbers in rows.items()}

    async def _decoded(self, uploads: Sequence[Upload], preparation: Preparation) -> Tensor:
        """Bytes `(images, channels, size, size)`, decoded by the pool."""
        loop = asyncio.get_running_loop()
        if len(uploads) * MAX_PIXELS > self.limits.pixels:
            await loop.run_in_executor(self._pool, partial(_check_pixels, uploads, self.limits.pixels))
        parts = [uploads[start : start + 8] for start in range(0, len(uploads), 8)]
        tasks = [loop.run_in_executor(self._pool, partial(_pixels, part, preparation)) for part in parts]
        try:
            return torch.cat(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()


def _preparation(entry: Entry) -> Preparation:
    preparation = entry.predictor.preparation
    if preparation is None:
        raise RefusedError(500, "a predictor must know how images are prepared", entry.id, "make it again")
    return preparation


def _pixels(uploads: Sequence[Upload], preparation: Preparation) -> Tensor:
    found = []
    for upload in uploads:
        try:
            found.append(preparation.pixels([upload.data]))
        except DataError as error:
            raise told(error, 422, upload.file) from None
    return torch.cat(found)


def _check_pixels(uploads: Sequence[Upload], most: int) -> None:
    """Raise if the images are too large together, as their headers say; what has none is refused when decoded."""
    total = 0
    for upload in uploads:
        total += pixels_said(upload.data)
        if total > most:
            fix = "shrink the images, or send several requests"
            raise RefusedError(
                413, f"the images of a request may have {most:,} pixels together", f"more: {total:,}", fix
            )
