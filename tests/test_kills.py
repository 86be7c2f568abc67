"""Runs that are killed at random equal those that were not; `benchmarks/kills.py --kills 100` does it at length."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "kills.py"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_nothing_is_lost_torn_or_different_after_a_handful_of_kills() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, SCRIPT, "--kills", "4", "--stages", "training,checkpointing,reporting,caching", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["total"] == sum(found["kills"].values()) == 4
    assert not any(found[harm] for harm in ("lost", "torn", "different", "left_over"))
