"""A run as a user's shell starts it: no thread variables, at a size at which torch divides its work between threads."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from support.runs import ended, flags, started, tiny, wait_for_lines
from tasknorm.machine import cores

pytestmark = [
    pytest.mark.usefixtures("glyph_cache"),
    pytest.mark.skipif(cores() < 2, reason="with one core torch has one thread"),
]

# The paper's net and 40-way episodes: two threads give other bits here than one does.
LARGE = {"filters": 64, "train_way": 40, "train_targets": 5, "meta_batch": 1, "norm": "TaskNorm-I", "seed": 3}
RUN = LARGE | {"iterations": 12, "checkpoint_every": 3, "validate_every": 0, "test_tasks": 2, "workers": 1}


def finished(folder: Path, *words: object, **variables: str) -> str:
    """What a run says until its end."""
    code, _, err = ended(started("train", "--out", folder, *words, threads=None, **variables))
    assert code == 0, err
    return err


def test_killed_and_resumed_equals_one_that_ran_through_with_all_cores(tmp_path: Path) -> None:
    settings = tiny(**RUN)
    finished(tmp_path / "through", *flags(settings))
    seed = random.randrange(10**6)
    print("seed of the kills:", seed)
    moments = random.Random(seed)
    for goal in sorted(moments.sample(range(2, 11), 2)):
        process = started("train", *flags(settings), "--out", tmp_path / "killed", "--resume", threads=None)
        wait_for_lines(tmp_path / "killed" / "metrics.jsonl", goal, process)
        time.sleep(moments.random() * 0.2)
        os.kill(process.pid, signal.SIGKILL)
        ended(process)
    said = finished(tmp_path / "killed", "--resume")
    assert "CPU threads" not in said
    weights = "model.safetensors"
    assert (tmp_path / "killed" / weights).read_bytes() == (tmp_path / "through" / weights).read_bytes()
    for folder in ("through", "killed"):
        assert json.loads((tmp_path / folder / "result.json").read_text())["threads"] == [cores()]
    # The size is one at which the number of threads tells, or this test would not notice a run on one core.
    finished(tmp_path / "one", *flags(settings), OMP_NUM_THREADS="1")
    assert (tmp_path / "one" / weights).read_bytes() != (tmp_path / "through" / weights).read_bytes()


def test_other_threads_are_noticed_and_recorded(tmp_path: Path) -> None:
    settings = tiny(**RUN | {"iterations": 4, "test_tasks": 0, "filters": 8, "train_way": 5})
    finished(tmp_path / "run", *flags(settings), OMP_NUM_THREADS="2")
    said = finished(tmp_path / "run", "--resume", "--iterations", 6, OMP_NUM_THREADS="1")
    assert "iterations 1 to 4 were computed with 2 CPU threads, the rest will be with 1" in said
    assert "OMP_NUM_THREADS=2" in said
    assert said.count("\n") == 1
    assert json.loads((tmp_path / "run" / "result.json").read_text())["threads"] == [2, 1]
