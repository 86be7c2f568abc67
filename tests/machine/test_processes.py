"""Two real processes under torchrun, connected by gloo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from support.runs import ended, flags, run, started, tiny, wait_for_lines
from tasknorm.machine.processes import Processes

pytestmark = pytest.mark.usefixtures("glyph_cache")

TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0", "--rdzv-backend=c10d")
TORCHRUN = (*TORCHRUN, "--rdzv-endpoint=localhost:0")


def test_shares_cover_every_task_once():
    for count in (1, 2, 3):
        assert [task for rank in range(count) for task in Processes(rank, count).share(7)] == list(range(7))


@pytest.mark.skipif(sys.platform == "win32", reason="gloo and torchrun")
def test_two_processes_equal_one(tmp_path):
    settings = tiny(learner="maml", norm="CBN", meta_batch=5, test_tasks=5, iterations=3, checkpoint_every=2)
    code, out, err = ended(started("train", *flags(settings), "--out", tmp_path / "two", launcher=TORCHRUN))
    assert code == 0, err
    assert out.count("final") == 3  # one process speaks
    run(settings, tmp_path / "one")
    for iteration in ("00000002", "00000003"):
        path = f"checkpoints/{iteration}/weights.safetensors"
        one, two = (load_file(tmp_path / name / path) for name in ("one", "two"))
        for name, value in one.items():
            # A bias before a batch norm has no gradient but rounding, which Adam makes as large as any other; the
            # running means follow it.
            slack = 3 * 2 * settings.learning_rate if name.endswith(("conv.bias", "running_mean")) else 2e-5
            torch.testing.assert_close(two[name], value, rtol=1e-4, atol=slack, msg=f"{iteration}: {name}")


# Trains, as the command line does, and says how many threads of the connection are left.
COUNTS = """
import sys
from pathlib import Path
from tasknorm.cli import app
app(sys.argv[1:], standalone_mode=False)
print("left:", sum("gloo" in (task / "comm").read_text() for task in Path("/proc/self/task").iterdir()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc lists threads")
def test_no_thread_outlives_the_connection(tmp_path):
    # One that does may let go of a tensor while Python ends, which aborts the process now and then.
    script = tmp_path / "counts.py"
    script.write_text(COUNTS)
    settings = flags(tiny(iterations=2, test_tasks=2))
    command = [sys.executable, *TORCHRUN, script, "train", *settings, "--out", tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("left: 0") == 2, done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="gloo and torchrun")
def test_a_lost_rank_ends_the_job_and_it_resumes(tmp_path):
    settings = tiny(iterations=100_000, validate_every=0, checkpoint_every=2)
    process = started("train", *flags(settings), "--out", tmp_path / "run", launcher=TORCHRUN)
    wait_for_lines(tmp_path / "run" / "metrics.jsonl", 5, process)
    os.kill(_children(process.pid)[1], signal.SIGKILL)
    code, _, err = ended(process)
    assert code != 0
    assert "another process of this training has ended" in err or "stopped after iteration" in err
    assert f"continue with: tasknorm train --out {tmp_path / 'run'} --resume" in err
    done = max(int(path.name) for path in (tmp_path / "run" / "checkpoints").iterdir() if path.name.isdigit())
    process = started("train", "--out", tmp_path / "run", "--resume", launcher=TORCHRUN)
    wait_for_lines(tmp_path / "run" / "metrics.jsonl", done + 5, process)
    children = _children(process.pid)
    os.kill(process.pid, signal.SIGKILL)  # torchrun itself
    ended(process)  # its processes have noticed and ended: nobody holds its output open
    assert not any(_runs(child) for child in children)


@pytest.mark.skipif(sys.platform == "win32", reason="gloo and torchrun")
@pytest.mark.parametrize("rank", [0, 1])
def test_torchrun_starts_a_job_again_after_a_rank_was_killed(tmp_path, rank):
    settings = tiny(iterations=60, validate_every=0, checkpoint_every=2, test_tasks=1)
    folder, launcher = tmp_path / "run", (*TORCHRUN, "--max-restarts=2")
    process = started("train", *flags(settings), "--out", folder, "--resume", launcher=launcher)
    wait_for_lines(folder / "metrics.jsonl", 5, process)
    os.kill(_children(process.pid)[rank], signal.SIGKILL)
    code, _, err = ended(process)
    assert code == 0, err
    assert (folder / "result.json").exists()
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == list(range(1, 61))


def _runs(pid: int) -> bool:
    status = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return status.stdout.strip()[:1] not in ("", "Z")


def _children(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=True)
    return sorted(int(pid) for pid in listed.stdout.split())
