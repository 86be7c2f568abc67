"""Runs of a grid as processes of this machine."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import torch

from tasknorm.grid.grid_run import GridRun
from tasknorm.machine import cores


class LocalEngine:
    """At most `processes` runs at a time, each a process with `threads` threads; GPUs are dealt out in turn.

    Args:
        grid: the folder of the runs' folders.
        processes: runs at a time; as many as GPUs, or else cores, if left out.
        threads: CPU threads of each run.
    """

    def __init__(self, grid: Path, processes: int | None = None, threads: int = 1) -> None:
        self.gpus = torch.cuda.device_count()
        self.processes = processes or self.gpus or max(1, cores() // threads)
        self._grid, self._threads = grid, threads
        self._places: list[tuple[GridRun, subprocess.Popen[bytes]] | None] = [None] * self.processes

    @property
    def free(self) -> bool:
        """Whether there is room for another run."""
        return None in self._places

    def start(self, run: GridRun) -> None:
        """Start a run, or go on with it."""
        place = self._places.index(None)
        variables = {"CUDA_VISIBLE_DEVICES": str(place % self.gpus)} if self.gpus else {}
        self._places[place] = run, run.at(self._grid).started(self._threads, variables)

    def ended(self) -> dict[str, str | None]:
        """Runs that have ended since the last call, by name: why they failed, or None."""
        found: dict[str, str | None] = {}
        for place, held in enumerate(self._places):
            if held is not None and (code := held[1].poll()) is not None:
                self._places[place] = None
                _close(held[1])
                found[held[0].name] = held[0].at(self._grid).failure(code)
        return found

    def stop(self) -> None:
        """Ask all runs to stop, and wait for their checkpoints; interrupted once more, kill them."""
        processes = [held[1] for held in self._places if held is not None]
        for process in processes:
            process.send_signal(signal.SIGTERM)
        try:
            for process in processes:
                process.wait()
        finally:
            for process in processes:
                process.kill()
                process.wait()
                _close(process)
            self._places = [None] * self.processes


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
