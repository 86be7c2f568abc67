"""Runs of a grid in processes that live as long as the grid: each imports torch once and does one run after another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import torch

from tasknorm.grid.grid_run import GridRun
from tasknorm.machine import cores

COMMAND = (sys.executable, "-m", "tasknorm.cli.worker")
RESTARTS = 3  # times that a run is tried again from its checkpoint after its process was killed


class PoolEngine:
    """At most `processes` runs at a time, each with `threads` threads; GPUs are dealt out in turn.

    If a process is killed, as by a machine that is short of memory, its run goes on from its checkpoint in a new one,
    at most `RESTARTS` times.

    Args:
        grid: the folder of the runs' folders.
        processes: runs at a time; as many as GPUs, or else cores, if left out.
        threads: CPU threads of each run.
    """

    def __init__(self, grid: Path, processes: int | None = None, threads: int = 1) -> None:
        self.gpus = torch.cuda.device_count()
        self.processes = processes or self.gpus or max(1, cores() // threads)
        self._grid, self._threads = grid, threads
        self._workers = [self._worker(place) for place in range(self.processes)]
        self._runs: list[GridRun | None] = [None] * self.processes
        self._tries: dict[str, int] = {}

    @property
    def free(self) -> bool:
        """Whether there is room for another run."""
        return None in self._runs

    def _worker(self, place: int) -> _Worker:
        variables = {"CUDA_VISIBLE_DEVICES": str(place % self.gpus)} if self.gpus else {}
        return _Worker({"OMP_NUM_THREADS": str(self._threads)} | variables)

    def start(self, run: GridRun) -> None:
        """Start a run, or go on with it."""
        self._start(self._runs.index(None), run)

    def _start(self, place: int, run: GridRun) -> None:
        here = run.at(self._grid)
        self._runs[place] = run
        self._tries[run.name] = self._tries.get(run.name, 0) + 1
        words = here.words()
        here.files.log.touch()  # the process may be killed before it opens it
        self._workers[place].do([str(here.files.log.absolute()), *words])

    def ended(self) -> dict[str, str | None]:
        """Runs that have ended since the last call, by name: why they failed, or None."""
        found: dict[str, str | None] = {}
        for place, run in enumerate(self._runs):
            if run is None or (code := self._workers[place].code()) is None:
                continue
            if code < 0:
                self._workers[place].stop()
                self._workers[place] = self._worker(place)
                if self._tries[run.name] <= RESTARTS:
                    self._start(place, run)
                    continue
            self._runs[place] = None
            found[run.name] = run.at(self._grid).failure(code)
        return found

    def stop(self) -> None:
        """Ask all runs to stop, and wait for their checkpoints; interrupted once more, kill them."""
        for worker in self._workers:
            worker.process.send_signal(signal.SIGTERM)
        try:
            for worker in self._workers:
                worker.process.wait()
        finally:
            for worker in self._workers:
                worker.stop()
            self._runs = [None] * self.processes


class _Worker:
    """A process that does one command after another (see `tasknorm.cli.worker`)."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | dict(variables),
            text=True,
            start_new_session=True,  # the grid alone hears Ctrl-C, and stops its runs
        )
        self._codes: SimpleQueue[int] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Note each command's exit code; when the process is gone, the number of the signal that ended it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._codes.put(int(line))
        code = self.process.wait()
        self._codes.put(code if code < 0 else -signal.SIGKILL)

    def do(self, words: list[str]) -> None:
        """Do a command; the first word is its log file."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # killed while it had nothing to do: `code` tells
            self.process.stdin.write(json.dumps(words) + "\n")
            self.process.stdin.flush()

    def code(self) -> int | None:
        """The exit code of a command that has ended; negative if the process is gone."""
        return None if self._codes.empty() else self._codes.get()

    def stop(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
