"""One run of a grid: its name, its settings, and what its folder says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasknorm.errors import SettingsError
from tasknorm.files import write_atomically
from tasknorm.runs.record import CONFIG
from tasknorm.runs.run import LENGTH, MACHINE, is_finished
from tasknorm.settings.config import read_config
from tasknorm.settings.pretraining import Pretraining
from tasknorm.settings.training import Settings
from tasknorm.training.checkpoint import last_iteration
from tasknorm.training.pretraining import CHECKPOINTS, RECORD
from tasknorm.training.watch import METRICS

LOG = "log.txt"
COMMAND = (sys.executable, "-m", "tasknorm.cli.with_parent")
LENGTHS = ("epochs", LENGTH)


@dataclass(frozen=True)
class GridRun:
    """A training or a pretraining.

    Args:
        name: of its folder, below the grid's.
        settings: of the run.
        needs: names of the runs that must be finished before it.
    """

    name: str
    settings: Settings | Pretraining
    needs: tuple[str, ...] = ()

    @property
    def iterations(self) -> int:
        """Steps until it is trained; a pretraining's are its epochs."""
        return self.settings.epochs if isinstance(self.settings, Pretraining) else self.settings.iterations

    def finished(self, grid: Path) -> bool:
        """Whether its record is written."""
        folder = grid / self.name
        if isinstance(self.settings, Pretraining):
            return (folder / RECORD).exists() and len(read_config(folder / RECORD)["epochs"]) >= self.iterations
        return is_finished(folder, self.iterations)

    def done(self, grid: Path) -> int:
        """Iterations that it has behind it."""
        if self.finished(grid):
            return self.iterations
        if isinstance(self.settings, Pretraining):
            return last_iteration(grid / self.name / CHECKPOINTS)
        lines = last_metrics(grid / self.name)
        return min(self.iterations, int(lines[-1]["iteration"])) if lines else 0

    def part(self, share: float) -> GridRun:
        """The same run with a share of its iterations; a pretraining stays whole."""
        if isinstance(self.settings, Pretraining):
            return self
        shorter = {LENGTH: max(1, round(share * self.iterations))}
        return replace(self, settings=self.settings.model_copy(update=shorter))

    def check(self, grid: Path) -> None:
        """See that its folder is empty, or holds this run: a shorter one goes on, a longer one serves.

        Raises:
            SettingsError: if it holds a run with other settings.
        """
        folder = grid / self.name
        if not (folder / CONFIG).exists():
            if folder.exists() and any(path.name != LOG for path in folder.iterdir()):
                raise SettingsError(f"{folder}: a run's folder must hold its {CONFIG}, and this has none; remove it")
            return
        recorded = type(self.settings).of(read_config(folder / CONFIG)).model_dump()
        for key, value in self.settings.model_dump().items():
            if key not in (*MACHINE, *LENGTHS) and _comparable(key, value) != _comparable(key, recorded[key]):
                raise SettingsError(
                    f"{key}={value} contradicts the run in {folder}, which has {key}={recorded[key]}; "
                    "choose another folder for the grid, or remove this one"
                )

    def started(self, grid: Path, threads: int, variables: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start it in a process of its own, or go on with it; what it says goes to `log.txt`."""
        folder = grid / self.name
        if not (folder / CONFIG).exists():
            write_atomically(folder / CONFIG, (self.settings.model_dump_json(indent=2) + "\n").encode())
        verb, length = ("pretrain", "epochs") if isinstance(self.settings, Pretraining) else ("train", LENGTH)
        most = max(self.iterations, last_iteration(folder / CHECKPOINTS))
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)} | dict(variables or {})
        with (folder / LOG).open("ab") as log:
            return subprocess.Popen(
                [*COMMAND, verb, "--out", str(folder), "--resume", f"--{length}", str(most)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # the grid alone hears Ctrl-C, and stops its runs
            )

    def failure(self, grid: Path, code: int) -> str | None:
        """Why it ended with this exit code; None if it is finished."""
        if code == 0 and self.finished(grid):
            return None
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        lines = (grid / self.name / LOG).read_text(errors="replace").strip().splitlines()
        return "\n".join([how, *lines[-3:]])


def last_metrics(folder: Path, size: int = 1 << 16) -> list[dict[str, Any]]:
    """The last whole lines of a run's `metrics.jsonl`."""
    path = folder / METRICS
    if not path.exists():
        return []
    with path.open("rb") as file:
        start = max(0, path.stat().st_size - size)
        file.seek(start)
        lines = file.read().split(b"\n")
    return [json.loads(line) for line in lines[1 if start else 0 : -1]]


def _comparable(key: str, value: Any) -> Any:
    """The grid's folder may move: of pretrained weights the run and the file count."""
    return Path(value).parts[-2:] if key == "pretrained" and value else value
