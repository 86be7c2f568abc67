"""The benchmarks run; what they measure is not tested, machines differ."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SAMPLING = Path(__file__).parents[1] / "benchmarks" / "sampling.py"


def test_sampling_reports_episodes_and_images_per_second():
    words = [sys.executable, SAMPLING, "--json", "--seconds", "0.05", "--classes", "20"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)
    assert set(found) == {"fixed_from_cache", "variable_from_cache", "variable_from_records"}
    assert all(value["episodes_per_second"] > 0 for value in found.values())
    assert all(value["images_per_second"] > 0 for value in found.values())
