"""A run in its folder: one interface for trainings and pretrainings, so that nobody has to ask which it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from tasknorm.errors import SettingsError
from tasknorm.files import is_free, write_atomically
from tasknorm.runs.paths import with_absolute_paths
from tasknorm.runs.speed import Speed
from tasknorm.settings import PretrainSettings, Settings, read_config
from tasknorm.training import RunFolder, last_iteration

AnySettings = Settings | PretrainSettings
S = TypeVar("S", Settings, PretrainSettings)

COMMAND = (sys.executable, "-m", "tasknorm.cli.with_parent")
PATIENCE = 10.0  # seconds until a process that was killed must be gone from a run's folder


class Run(ABC, Generic[S]):
    """A training or a pretraining.

    Args:
        settings: the run's settings; their paths become absolute.
        folder: the run's folder; empty, or with the same run in whatever state.

    Attributes:
        verb: the command that does such a run.
        name: what such a run is called in messages.
        files: the run's folder.
    """

    verb: ClassVar[str]
    name: ClassVar[str]

    def __init__(self, settings: S, folder: Path) -> None:
        self.settings: S = settings.model_copy(update=_paths(settings))
        self.files = RunFolder(folder)

    @abstractmethod
    def finished(self) -> bool:
        """Whether the folder holds the record of a run of this length, or of a longer one."""

    @abstractmethod
    def done(self) -> int:
        """Iterations, or epochs, that it has behind it."""

    @abstractmethod
    def do(self) -> dict[str, Any]:
        """Do the run in this process, from where it is, or do nothing if it is finished: its record."""

    @abstractmethod
    def speed(self) -> Speed | None:
        """How fast the run in the folder is; None if it has not come far enough to tell."""

    @abstractmethod
    def seconds(self, speed: Speed) -> float:
        """Estimated seconds of the whole run."""

    @abstractmethod
    def kind(self) -> str:
        """A short name for what the run's speed depends on."""

    @abstractmethod
    def shortened(self) -> S | None:
        """Settings of a run of seconds that is as fast; None if this one is hardly longer itself."""

    def part(self, share: float) -> S:
        """The settings with a share of the length; a pretraining stays whole."""
        return self.settings.with_length(max(1, round(share * self.settings.length)))

    def write_config(self) -> None:
        """Note the settings in the folder, unless they are there with the same length."""
        if self.files.config.exists() and read_config(self.files.config)[self._length] == self.settings.length:
            return
        write_atomically(self.files.config, (json.dumps(self.settings.values(), indent=2) + "\n").encode())

    def check(self) -> None:
        """See that the folder is empty, or holds this run: a shorter one goes on, a longer one serves.

        Raises:
            SettingsError: if it holds something else; names the first setting that differs.
        """
        if not self.files.config.exists():
            if set(self.files.visible()) - {self.files.log}:
                raise SettingsError(
                    f"{self.files.path}: this folder has files but no config.json; remove it, or choose another"
                )
            return
        recorded = with_absolute_paths(type(self.settings).of(read_config(self.files.config)).values())
        for key, value in self.settings.values().items():
            if key not in (*self.settings.machine, self._length) and _comparable(key, value) != _comparable(
                key, recorded.get(key)
            ):
                raise SettingsError(
                    f"{key}={value} contradicts the run in {self.files.path}, which has {key}={recorded.get(key)}; "
                    "choose another folder, or remove this one"
                )

    def started(self, threads: int, variables: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Do the run in a process of its own, from where it is; what it prints goes to `log.txt`.

        Args:
            threads: CPU threads of the process.
            variables: variables of its environment, beside those of this process.
        """
        words: list[str] = self.words()
        with self.files.log.open("ab") as log:
            return subprocess.Popen(
                [*COMMAND, *words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=os.environ | {"OMP_NUM_THREADS": str(threads)} | dict(variables or {}),
                start_new_session=True,  # the grid alone hears Ctrl-C, and stops its runs
            )

    def words(self) -> list[str]:
        """The words of the command that does the run, from where it is; its settings are noted in its folder first."""
        end = time.monotonic() + PATIENCE
        while not is_free(self.files.path) and time.monotonic() < end:
            time.sleep(0.05)
        if not self.files.config.exists():
            self.write_config()
        longest = max(self.settings.length, last_iteration(self.files.checkpoints))
        return [self.verb, "--out", str(self.files.path.absolute()), "--resume", f"--{self._length}", str(longest)]

    def failure(self, code: int) -> str | None:
        """Why its process ended with this exit code; None if the run is finished."""
        if code == 0 and self.finished():
            return None
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        lines: list[str] = self.files.log.read_text(errors="replace").strip().splitlines()
        return "\n".join([how, *lines[-3:]])

    @property
    def _length(self) -> str:
        return self.settings.length_name


def _paths(settings: AnySettings) -> dict[str, Any]:
    """The settings that hold paths, absolute."""
    values = settings.values()
    return {key: value for key, value in with_absolute_paths(values).items() if value != values[key]}


def _comparable(key: str, value: Any) -> Any:
    """A folder of runs may move: of pretrained weights the run and the file count."""
    return Path(value).parts[-2:] if key == "pretrained" and value else value
