"""The benchmarks run, and the README says what they measured; how fast is not tested, machines differ."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import layers
import tasknorm

ROOT = Path(__file__).parents[1]


def measured(name: str, *words: str) -> dict[str, Any]:
    """What a benchmark prints as JSON."""
    command = [sys.executable, ROOT / "benchmarks" / f"{name}.py", "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_layers_reports_every_norm() -> None:
    ratios = measured("layers", "--quick", "--eager")["ratios"]
    assert set(ratios) == {*tasknorm.NORMS, "transcription"}
    assert all(value > 0 for modes in ratios.values() for value in modes["eager"].values())


def test_sampling_reports_episodes_and_images_per_second() -> None:
    found = measured("sampling", "--seconds", "0.05", "--classes", "20")
    assert set(found) == {"fixed_from_cache", "variable_from_cache", "variable_from_records"}
    assert all(value["episodes_per_second"] > 0 for value in found.values())
    assert all(value["images_per_second"] > 0 for value in found.values())


def test_episode_compares_a_joint_pass_with_two() -> None:
    found = measured("episode", "--repeats", "1")
    assert all(found[learner]["ratio_to_two_passes"] > 0 for learner in ("protonets", "cnaps"))


def test_the_readmes_speeds_are_those_that_were_measured() -> None:
    ratios = json.loads((ROOT / "results" / "layers.json").read_text())["ratios"]
    assert layers.table(ratios) in (ROOT / "README.md").read_text()


def test_the_readmes_speed_of_maml_is_what_was_measured() -> None:
    found = json.loads((ROOT / "results" / "maml.json").read_text())["first_order"]
    text = " ".join((ROOT / "README.md").read_text().split())
    compiled, eager = found["ratio_to_best_peer"], found["ratio_to_best_peer_eager"]
    assert f"{compiled} times the speed of the better of `higher` and `torchopt` compiled, and {eager} times" in text
