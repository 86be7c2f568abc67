"""Killed, interrupted, damaged and finished runs: what `--resume` makes of them, with real processes."""

from __future__ import annotations

import json
import os
import random
import signal
import time

import pytest

from support.runs import ended, flags, run, started, tiny, wait_for_lines

pytestmark = pytest.mark.usefixtures("glyph_cache")

LONG = {"iterations": 100, "validate_every": 30, "checkpoint_every": 7, "norm": "CBN", "test_tasks": 2}


def metrics(folder):
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in found]


def same_run(one, other):
    names = [path.name for path in one.glob("*.safetensors")]
    assert len(names) == 4
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert metrics(one) == metrics(other)


def test_killed_at_random_and_resumed_equals_one_that_ran_through(tmp_path):
    settings = tiny(learner="maml", workers=2, **LONG)
    run(settings, tmp_path / "through")
    seed = random.randrange(10**6)
    print("seed of the kills:", seed)
    moments = random.Random(seed)
    folder = tmp_path / "killed"
    for goal in sorted(moments.sample(range(1, 95), 3)):
        process = started("train", *flags(settings), "--out", folder, "--resume")
        wait_for_lines(folder / "metrics.jsonl", goal, process)
        time.sleep(moments.random() * 0.03)
        os.kill(process.pid, signal.SIGKILL)
        assert ended(process)[0] == -signal.SIGKILL
        with pytest.raises(ProcessLookupError):  # nothing of its session lives on
            os.killpg(process.pid, 0)
    assert not (folder / "result.json").exists()
    code, _, err = ended(started("train", "--out", folder, "--resume"))
    assert code == 0, err
    same_run(tmp_path / "through", folder)


def test_interrupted_leaves_a_checkpoint_and_says_how_to_go_on(tmp_path):
    settings = tiny(**LONG | {"iterations": 100_000, "checkpoint_every": 100_000, "validate_every": 0})
    for number in (signal.SIGINT, signal.SIGTERM):
        before = len(metrics(tmp_path / "run")) if (tmp_path / "run").exists() else 0
        process = started("train", *flags(settings), "--out", tmp_path / "run", "--resume")
        wait_for_lines(tmp_path / "run" / "metrics.jsonl", before + 3, process)
        process.send_signal(number)
        code, _, err = ended(process)
        done = metrics(tmp_path / "run")[-1]["iteration"]
        assert code == 128 + number
        assert f"stopped after iteration {done}; go on with: tasknorm train --out {tmp_path / 'run'} --resume" in err
        assert (tmp_path / "run" / "checkpoints" / f"{done:08d}").is_dir()
        assert done >= before + 3
        assert "Traceback" not in err


def test_a_damaged_checkpoint_falls_back_and_a_finished_run_stays(tmp_path, capfd):
    settings = tiny()
    run(settings, tmp_path / "run")
    weights = (tmp_path / "run" / "model.safetensors").read_bytes()
    kept = metrics(tmp_path / "run")
    run(settings, tmp_path / "run")
    assert "finished already" in capfd.readouterr().err
    (tmp_path / "run" / "result.json").unlink()
    (tmp_path / "run" / "checkpoints" / "00000012" / "state.pt").write_bytes(b"")
    run(settings, tmp_path / "run")
    assert "00000012: damaged" in capfd.readouterr().err
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == weights
    assert metrics(tmp_path / "run") == kept
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["seconds"] == pytest.approx(sum(line["seconds"] for line in lines))  # before and after
    assert result["curve"]["iteration"] == list(range(1, 13))


def test_a_finished_run_goes_on_to_more_iterations_as_if_asked_for_them_at_first(tmp_path):
    run(tiny(iterations=10, norm="CBN"), tmp_path / "further")
    through = run(tiny(iterations=20, norm="CBN"), tmp_path / "through")
    code, _, err = ended(started("train", "--out", tmp_path / "further", "--resume", "--iterations", 20))
    assert code == 0, err
    same_run(tmp_path / "through", tmp_path / "further")
    further = json.loads((tmp_path / "further" / "result.json").read_text())
    assert further["accuracies"] == through["accuracies"]
    assert json.loads((tmp_path / "further" / "config.json").read_text())["iterations"] == 20
    code, _, err = ended(started("train", "--out", tmp_path / "further", "--resume", "--iterations", 15))
    assert code == 2
    assert "iterations=15 contradicts the run in" in err
