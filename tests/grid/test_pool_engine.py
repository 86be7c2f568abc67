"""Processes that do one run after another: failures are told, killed processes replaced, nothing outlives the grid."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from support.runs import tiny
from tasknorm.grid.grid import do_runs
from tasknorm.grid.grid_run import GridRun
from tasknorm.grid.pool_engine import RESTARTS, PoolEngine

pytestmark = [
    pytest.mark.usefixtures("glyph_cache"),
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_one_process_does_what_fails_and_what_does_not_and_ends_with_the_grid(tmp_path: Path) -> None:
    engine = PoolEngine(tmp_path, processes=1)
    (worker,) = engine._workers
    try:
        bad, good = GridRun("bad", tiny(source="nowhere")), GridRun("good", tiny(test_tasks=1, iterations=2))
        failed = do_runs([bad, good], engine, lambda ended: None)
        assert list(failed) == ["bad"]
        assert failed["bad"].startswith("exit code 2\ntasknorm: nowhere: there is no data set or path of this name")
        assert good.at(tmp_path).finished()
        assert engine._workers == [worker]  # one process did both
        os.kill(worker.process.pid, signal.SIGKILL)  # it has nothing to do
        worker.process.wait()
        after = GridRun("after", tiny(test_tasks=0, iterations=1, validate_every=0))
        assert do_runs([after], engine, lambda ended: None) == {}
    finally:
        engine.stop()
    assert not any(alive(each.process.pid) for each in engine._workers)


def test_a_run_whose_process_is_killed_again_and_again_fails_in_the_end(tmp_path: Path) -> None:
    engine = PoolEngine(tmp_path, processes=1)
    killed: list[int] = []

    def kill(ended: object) -> None:
        process = engine._workers[0].process.pid
        if process not in killed and not engine.free:
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    began = time.monotonic()
    try:
        failed = do_runs([GridRun("run", tiny(iterations=10**6))], engine, kill)
    finally:
        engine.stop()
    assert failed["run"].startswith("killed by signal 9")
    assert len(killed) == 1 + RESTARTS
    assert time.monotonic() - began < 300
