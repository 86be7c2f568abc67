"""Runs of a grid as tasks of a Ray cluster, whose machines share the grid's folder."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from tasknorm.grid.grid_run import GridRun
from tasknorm.machine import cores

RETRIES = 10  # times that a run is tried again from its checkpoint after its worker or machine was lost
RESTARTS = 3  # times that a worker tries a run again from its checkpoint after its process was killed


class RayEngine:
    """Each run a task of `threads` cores, and of one GPU where the cluster has any.

    Connects to the cluster at RAY_ADDRESS, or starts Ray on this machine. A run is tried again from its checkpoint, up
    to `RETRIES` times if its worker or machine is lost, and up to `RESTARTS` times if its process is killed.

    Args:
        grid: the folder of the runs' folders, the same on every machine of the cluster.
        processes: runs at a time, if Ray is started on this machine.
        threads: CPU threads of each run.

    Raises:
        ModuleNotFoundError: if Ray is not installed.
    """

    free = True  # Ray keeps the queue

    def __init__(self, grid: Path, processes: int | None = None, threads: int = 1) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise ModuleNotFoundError(
                "engine=ray needs Ray, which is not installed; pip install 'tasknorm[ray]'"
            ) from None
        self._ray: Any = ray
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if not os.environ.get("RAY_ADDRESS"):
            cpus = (processes or max(1, cores() // threads)) * threads
            options |= {"address": "local", "num_cpus": cpus, "include_dashboard": False}
        ray.init(**options)
        resources = self._ray.cluster_resources()
        self._gpus = int(resources.get("GPU", 0))
        self.processes = max(1, self._gpus or int(resources.get("CPU", 1)) // threads)
        self._grid, self._threads = grid, threads
        self._task = ray.remote(num_cpus=threads, num_gpus=1 if self._gpus else 0, max_retries=RETRIES)(executed)
        self._runs: dict[Any, GridRun] = {}

    def start(self, run: GridRun) -> None:
        """Hand a run to the cluster."""
        variables = {name: value for name, value in os.environ.items() if name.startswith("TASKNORM_")}
        place = self._task.remote(run, self._grid, self._threads, Path.cwd(), variables)
        self._runs[place] = run

    def ended(self) -> dict[str, str | None]:
        """Runs that have ended since the last call, by name: why they failed, or None."""
        if not self._runs:
            return {}
        ready, _ = self._ray.wait(list(self._runs), num_returns=len(self._runs), timeout=0)
        found = {}
        for place in ready:
            run = self._runs.pop(place)
            try:
                found[run.name] = self._ray.get(place)
            except self._ray.exceptions.RayError as error:
                found[run.name] = f"Ray: {error}"
        return found

    def stop(self) -> None:
        """Ask all runs to stop, wait for their checkpoints, and leave the cluster."""
        for place in self._runs:
            self._ray.cancel(place)
        if self._runs:
            self._ray.wait(list(self._runs), num_returns=len(self._runs))
        self._runs = {}
        self._ray.shutdown()


def executed(run: GridRun, grid: Path, threads: int, place: Path, variables: dict[str, str]) -> str | None:
    """Do one run, on a worker: why it failed, or None.

    If its process is killed, as by a machine that is short of memory, it is started again from its checkpoint, at most
    `RESTARTS` times.
    """
    os.chdir(place)
    here = run.at(grid)
    for _ in range(1 + RESTARTS):
        process = here.started(threads, variables)
        try:
            code = process.wait()
        finally:  # asked to stop
            process.terminate()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        if code >= 0:
            return here.failure(code)
    return f"{here.failure(code)}\n(after {RESTARTS} more tries from its checkpoint)"
