"""The predictors of a service: files in a folder, whole or absent, the last used ones in memory."""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasknorm.errors import reason
from tasknorm.learners import Predictor
from tasknorm.serve.limits import Limits
from tasknorm.serve.refusals import RefusedError

IDS = re.compile(r"[A-Za-z0-9_-]{22}")
SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Entry:
    """A predictor that is served; examples that are added make another one, which takes its place.

    Args:
        id: its name in the service, which cannot be guessed.
        predictor: the predictor, which nobody changes.
        transductive: whether its answers depend on the other images of a call.
        classes: number of context images of each class; None if it forgot them.
    """

    id: str
    predictor: Predictor
    transductive: bool
    classes: Mapping[str, int | None]

    @classmethod
    def of(cls, id: str, predictor: Predictor) -> Entry:
        """The entry of a predictor."""
        context = predictor.context
        classes = {name: None if context is None else len(context[name]) for name in predictor.names}
        return cls(id, predictor, predictor.label == "transductive", classes)


class Store:
    """Predictors by id.

    What reads or writes files belongs to the model's thread, one at a time; `remembered` may be asked by any.

    Args:
        folder: holds a file for each predictor; the caller has it to itself (see `files.alone`).
        limits: of the service.
        network: name of the run's network, if it is one of others: what predictors that a function made need.
    """

    def __init__(self, folder: Path, limits: Limits, network: str | None = None) -> None:
        self._folder = folder
        self._network = network
        self._limits = limits
        self._memory: OrderedDict[str, Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._ids = {path.stem: path.stat().st_mtime for path in folder.glob(f"*{SUFFIX}") if IDS.fullmatch(path.stem)}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def in_memory(self) -> int:
        """Number of predictors in memory."""
        return len(self._memory)

    def ids(self) -> list[str]:
        """The ids of all predictors, the latest first."""
        times = dict(self._ids)  # in one step: the model's thread may be adding
        return sorted(times, key=lambda id: -times[id])

    def remembered(self, id: str) -> Entry | None:
        """The predictor if it is in memory.

        Raises:
            RefusedError: 404, if there is none of this id.
        """
        if id not in self._ids:
            raise _unknown(id)
        with self._lock:
            entry = self._memory.get(id)
            if entry is not None:
                self._memory.move_to_end(id)
        return entry

    def entry(self, id: str) -> Entry:
        """The predictor, loaded if need be.

        Raises:
            RefusedError: 404, if there is none of this id.
            WeightsError: if its file is damaged.
        """
        return self.remembered(id) or self._remember(Entry.of(id, self.loaded(id)))

    def loaded(self, id: str) -> Predictor:
        """A fresh copy of the predictor from its file, which the caller may change.

        Raises:
            RefusedError: 404, if there is none of this id.
            WeightsError: if its file is damaged.
        """
        path = self._path(id)
        if id not in self._ids or not path.exists():
            self._forget(id)
            raise _unknown(id)
        return Predictor.load(path, self._network)

    def check_room(self) -> None:
        """Raise if no predictor may be added.

        Raises:
            RefusedError: 429, if there are too many.
        """
        if len(self._ids) >= self._limits.predictors:
            raise RefusedError(
                429,
                f"at most {self._limits.predictors} predictors are kept",
                len(self._ids),
                "delete one that you need no longer (DELETE /predictors/{id}), or start the service with a higher "
                "--predictors",
            )

    def add(self, predictor: Predictor) -> Entry:
        """Keep a new predictor under an id of its own.

        Raises:
            RefusedError: 429, if there are too many; 507, if its file cannot be written, as on a full disk.
        """
        self.check_room()
        return self.replace(secrets.token_urlsafe(16), predictor)

    def replace(self, id: str, predictor: Predictor) -> Entry:
        """Keep a predictor in the place of the one with this id: first on the disk, then in memory.

        Raises:
            RefusedError: 507, if its file cannot be written, as on a full disk; the old one then stays.
        """
        path = self._path(id)
        try:
            predictor.save(path)
            self._ids[id] = path.stat().st_mtime
        except OSError as error:
            rule = "the service must be able to write the predictor"
            raise RefusedError(507, rule, reason(error), "free some space where the service keeps them") from None
        return self._remember(Entry.of(id, predictor))

    def remove(self, id: str) -> None:
        """Delete a predictor.

        Raises:
            RefusedError: 404, if there is none of this id.
        """
        if id not in self._ids:
            raise _unknown(id)
        self._path(id).unlink(missing_ok=True)
        self._forget(id)

    def _path(self, id: str) -> Path:
        if not IDS.fullmatch(id):
            raise _unknown(id)
        return self._folder / f"{id}{SUFFIX}"

    def _remember(self, entry: Entry) -> Entry:
        with self._lock:
            self._memory[entry.id] = entry
            self._memory.move_to_end(entry.id)
            while len(self._memory) > self._limits.in_memory:
                self._memory.popitem(last=False)
        return entry

    def _forget(self, id: str) -> None:
        self._ids.pop(id, None)
        with self._lock:
            self._memory.pop(id, None)


def _unknown(id: str) -> RefusedError:
    return RefusedError(404, "there is no predictor with this id", id, "GET /predictors lists those there are")
