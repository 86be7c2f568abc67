"""Killed, interrupted, damaged and finished runs: what `--resume` makes of them, with real processes."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest
from typer.testing import CliRunner

from support.runs import ended, flags, run, started, tiny, wait_for_lines
from tasknorm.cli import app

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
        assert f"stopped after iteration {done}; continue with: tasknorm train --out {tmp_path / 'run'} --resume" in err
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
    assert f"damaged: {tmp_path / 'run' / 'checkpoints' / '00000012'} (" in capfd.readouterr().err
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == weights
    assert metrics(tmp_path / "run") == kept
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["seconds"] == pytest.approx(sum(line["seconds"] for line in lines))  # before and after
    assert result["curve"]["iteration"] == list(range(1, 13))


@pytest.mark.parametrize("option", ["anil", "step_norms"])
def test_a_variant_of_maml_goes_on_from_its_checkpoint(tmp_path, option):
    options = {"learner": "maml", "inner_steps": 2, "test_steps": 3, "inner_lr": 0.1, option: True}
    settings, folder = tiny(norm="CBN", **options), tmp_path / "run"
    run(settings, folder)
    weights, kept = (folder / "model.safetensors").read_bytes(), metrics(folder)
    (folder / "result.json").unlink()
    (folder / "checkpoints" / "00000012" / "state.pt").write_bytes(b"")  # falls back to the one before
    found = run(settings, folder)
    assert (folder / "model.safetensors").read_bytes() == weights
    assert metrics(folder) == kept
    assert {row["norm"] for row in found["accuracies"]} == {"TBN", "CBN", "RN"}  # converted, in every step


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


def contents(folder):
    """Every file of a run but its lock."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def test_a_second_process_is_refused_at_once_and_changes_nothing(tmp_path):
    settings = tiny(**LONG)
    run(settings, tmp_path / "through")
    folder = tmp_path / "run"
    first = started("train", *flags(settings), "--out", folder)
    wait_for_lines(folder / "metrics.jsonl", 3, first)
    os.kill(first.pid, signal.SIGSTOP)
    before = contents(folder)
    code, _, err = resumed(folder)
    assert code == 2
    assert f"{folder}: another process is writing to this folder (process {first.pid} on " in err
    assert err.count("\n") == 1
    assert contents(folder) == before
    os.kill(first.pid, signal.SIGCONT)
    code, _, err = ended(first)
    assert code == 0, err
    same_run(tmp_path / "through", folder)


def resumed(folder):
    """Exit code, output and errors of the command, in this process: nothing is killed here."""
    result = CliRunner().invoke(app, ["train", "--out", str(folder), "--resume"])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def unfinished(tmp_path):
    """A run that was killed in its test."""
    run(tiny(), tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    return tmp_path / "run"


def test_it_refuses_if_all_checkpoints_are_damaged_and_keeps_the_metrics(unfinished):
    for place in (unfinished / "checkpoints").iterdir():
        (place / "state.pt").write_bytes(b"")
    before = contents(unfinished)
    code, _, err = resumed(unfinished)
    assert code == 2
    assert f"all checkpoints are damaged: {unfinished / 'checkpoints' / '00000012'} (" in err
    assert f"remove {unfinished / 'checkpoints'}, or choose another folder with --out" in err
    assert contents(unfinished) == before


def test_damaged_metrics_are_named_by_file_and_line(unfinished):
    path = unfinished / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for garbage in ("\0\0\0\n", "[1]\n", '{"iteration": 3, "seconds": "long"}\n', '{"iteration": 3, "loss": 1.0}\n'):
        path.write_text("".join([*lines[:2], garbage, *lines[3:]]))
        before = contents(unfinished)
        code, _, err = resumed(unfinished)
        assert code == 2
        assert err.startswith(f"tasknorm: {path}, line 3: damaged; it must hold ")
        assert err.count("\n") == 1
        assert contents(unfinished) == before
    path.write_text("".join([*lines[:2], *lines[3:]]))
    code, _, err = resumed(unfinished)
    assert code == 0
    assert "1 of the iterations from 1 to 12 are missing, the first being 3" in err
    assert json.loads((unfinished / "result.json").read_text())["missing_iterations"] == [3]


def test_a_result_stays_if_a_longer_run_cannot_begin(tmp_path):
    run(tiny(), tmp_path / "run")
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write("garbage\n")
    before = contents(tmp_path / "run")
    result = CliRunner().invoke(app, ["train", "--out", str(tmp_path / "run"), "--resume", "--iterations", "14"])
    assert result.exit_code == 2
    assert "line 16: damaged" in result.stderr
    assert contents(tmp_path / "run") == before


def test_lost_metrics_are_told(unfinished):
    (unfinished / "metrics.jsonl").unlink()
    code, _, err = resumed(unfinished)
    assert code == 0
    assert f"{unfinished / 'metrics.jsonl'}: 12 of the iterations from 1 to 12 are missing" in err


@pytest.mark.parametrize("checkpoints", ["kept", "removed"])
def test_a_damaged_result_is_made_again_from_the_weights(tmp_path, checkpoints):
    folder = tmp_path / "run"
    result = run(tiny(), folder)
    weights = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
    if checkpoints == "removed":
        shutil.rmtree(folder / "checkpoints")
    (folder / "result.json").write_text("{}")
    code, out, err = resumed(folder)
    assert code == 0, err
    assert f"{folder / 'result.json'}: damaged (seconds: Field required); testing the run's weights again" in err
    mended = json.loads((folder / "result.json").read_text())
    assert mended["accuracies"] == result["accuracies"]
    assert mended["curve"] == result["curve"]
    assert {path.name: path.read_bytes() for path in folder.glob("*.safetensors")} == weights
    assert out.count("glyphs") == len(result["accuracies"])


def test_what_a_killed_run_left_unfinished_is_removed(unfinished):
    parts = [unfinished / f".x.{32 * 'a'}.part", unfinished / "checkpoints" / f".00000012.{32 * 'b'}.part"]
    for part in parts:
        part.mkdir()
        (part / "state.pt").touch()
    assert resumed(unfinished)[0] == 0
    assert not any(part.exists() for part in parts)


def test_a_full_disk_is_told_with_the_file(tmp_path):
    """A disk of 600 KB: enough for some metrics, not for checkpoints."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        words = ["train", *flags(tiny(filters=64)), "--out", disk / "run"]
        code, _, err = ended(started(*words))
        assert code == 2
        message = r"tasknorm: \S+: No space left on device; free some space there, then give the same command again"
        assert re.search(message, err.splitlines()[-1])
        assert str(disk / "run") in err
        assert "Traceback" not in err
        assert not list(disk.rglob("*.part"))
        subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)
        code, _, err = ended(started(*words, "--resume"))
        assert code == 0, err
    finally:
        subprocess.run(["umount", disk], check=True)
