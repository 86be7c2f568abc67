"""Grids of real processes: finished, failing, interrupted and killed ones, here and on a local Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.runs import run, tiny
from support.small_grid import small_grid
from tasknorm.durations import in_hours
from tasknorm.errors import SettingsError
from tasknorm.files import alone
from tasknorm.grid.estimates import seconds_left, speeds, timings
from tasknorm.grid.grid import run_grid
from tasknorm.grid.grid_run import GridRun
from tasknorm.runs import Speed, read_record, run_of
from tasknorm.settings import PretrainSettings

pytestmark = pytest.mark.usefixtures("glyph_cache")

TESTS = Path(__file__).parents[1]


def test_finished_runs_are_skipped_and_failed_ones_are_named(tmp_path):
    good = GridRun("good", tiny(test_tasks=1))
    run(good.settings, tmp_path / "good")
    written = (tmp_path / "good" / "result.json").stat().st_mtime_ns
    bad = GridRun("bad", tiny(source="nowhere"))
    after = GridRun("after", tiny(), needs=("bad",))
    said = []
    failed = run_grid([after, good, bad], tmp_path, processes=2, say=said.append)
    assert said[0].startswith("3 runs, 1 of them finished; estimated total: ")
    assert list(failed) == ["bad", "after"]
    assert failed["bad"].startswith("exit code 2\ntasknorm: nowhere: there is no data set or path of this name")
    assert failed["after"] == "needs bad, which failed"
    assert (tmp_path / "good" / "result.json").stat().st_mtime_ns == written
    assert run_grid([good], tmp_path, say=said.append) == {}
    assert said[-1] == f"{tmp_path}: all 1 runs are finished"


def test_a_grid_goes_on_to_a_larger_part_of_its_iterations(tmp_path):
    whole = GridRun("one", tiny(test_tasks=0, validate_every=0, iterations=12))
    for share, iterations in ((0.25, 3), (0.5, 6)):
        wanted = whole.part(share)
        assert not wanted.at(tmp_path).finished()
        assert run_grid([wanted], tmp_path, processes=1, say=lambda text: None) == {}
        assert wanted.at(tmp_path).finished()
        assert wanted.at(tmp_path).done() == iterations
        assert len((tmp_path / "one" / "metrics.jsonl").read_text().splitlines()) == iterations
    assert whole.part(0.25).at(tmp_path).finished()  # the longer run serves
    assert not whole.at(tmp_path).finished()
    (tmp_path / "one" / "result.json").unlink()  # as if killed on its way: it ends where it is
    assert run_grid([whole.part(0.25)], tmp_path, processes=1, say=lambda text: None) == {}
    assert read_record(tmp_path / "one").settings.iterations == 6


def test_a_run_stopped_before_its_first_validation_can_end_where_it_is(tmp_path):
    settings = tiny(iterations=12, validate_every=10, checkpoint_every=2)
    run(settings.model_copy(update={"iterations": 4, "validate_every": 0}), tmp_path / "one")
    (tmp_path / "one" / "result.json").unlink()
    (tmp_path / "one" / "config.json").write_text(json.dumps(settings.values()))
    assert run_grid([GridRun("one", settings).part(0.25)], tmp_path, processes=1, say=lambda text: None) == {}
    record = read_record(tmp_path / "one")
    assert record.result["validation"]["iteration"] == [4]
    assert {row.weights for row in record.results} == {"final", "best"}


def test_grids_that_cannot_be_done_are_refused(tmp_path):
    run(tiny(test_tasks=0, iterations=1), tmp_path / "one")
    with pytest.raises(SettingsError, match=r"shot=2 contradicts the run in .*one, which has shot=1"):
        run_grid([GridRun("one", tiny(test_tasks=0, iterations=1, shot=2))], tmp_path)
    with pytest.raises(SettingsError, match="two runs of the grid are named two"):
        run_grid([GridRun("two", tiny()), GridRun("two", tiny())], tmp_path)
    with pytest.raises(SettingsError, match="three needs runs that are not in the grid: two"):
        run_grid([GridRun("three", tiny(), needs=("two",))], tmp_path)
    with pytest.raises(SettingsError, match="one of local, ray, got 'slurm'"):
        run_grid([GridRun("two", tiny())], tmp_path, "slurm")
    with alone(tmp_path), pytest.raises(SettingsError, match="another process is writing to this folder"):
        run_grid([GridRun("two", tiny())], tmp_path)


def test_pretrained_weights_may_move_with_the_grid(tmp_path):
    settings = {"learner": "cnaps", "filters": None, "image_size": 16}
    there = GridRun("run", tiny(**settings, pretrained="there/pre/extractor.safetensors"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(json.dumps(there.settings.values()))
    GridRun("run", tiny(**settings, pretrained="here/pre/extractor.safetensors")).at(tmp_path).check()
    with pytest.raises(SettingsError, match="pretrained="):
        GridRun("run", tiny(**settings, pretrained="there/other/extractor.safetensors")).at(tmp_path).check()


def started_grid(folder: Path, engine: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "support.small_grid", str(folder), engine]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=TESTS, start_new_session=True)


def iterations(folder: Path) -> list[int]:
    return [one.at(folder).done() for one in small_grid()]


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not reached():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def processes_of(folder: Path) -> dict[int, int]:
    """The processes of a grid's runs, and the parent of each."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [row.split(None, 3) for row in listed.stdout.splitlines()]
    return {int(r[0]): int(r[1]) for r in rows if "tasknorm.cli.with_parent" in r[3] and f"{folder}/" in r[3]}


def same_as_through(folder: Path, through: Path) -> None:
    for one in small_grid():
        run(one.settings, through / one.name)
        names = [path.name for path in (through / one.name).glob("*.safetensors")]
        assert "model.safetensors" in names
        for name in names:
            assert (folder / one.name / name).read_bytes() == (through / one.name / name).read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupted_then_killed_then_gone_on_equals_one_that_ran_through(tmp_path):
    folder = tmp_path / "grid"
    process = started_grid(folder, "local")
    wait_until(lambda: min(iterations(folder)) >= 3, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert "the same command goes on with them" in err
    assert not processes_of(folder)
    for one in small_grid():
        assert (folder / one.name / "checkpoints" / f"{one.at(folder).done():08d}").is_dir()
    before = sum(iterations(folder))
    process = started_grid(folder, "local")
    wait_until(lambda: sum(iterations(folder)) >= before + 10, process)
    process.kill()
    process.communicate()
    end = time.monotonic() + 10
    while processes_of(folder) and time.monotonic() < end:
        time.sleep(0.01)
    assert not processes_of(folder)
    assert run_grid(small_grid(), folder, processes=2, timed=False) == {}
    same_as_through(folder, tmp_path / "through")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_on_ray_a_run_goes_on_after_its_process_and_then_its_worker_were_killed(tmp_path):
    pytest.importorskip("ray", reason="needs the extra ray")
    folder = tmp_path / "grid"
    process = started_grid(folder, "ray")
    wait_until(lambda: min(iterations(folder)) >= 10, process)
    (first, _), (child, worker) = sorted(processes_of(folder).items())
    os.kill(first, signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert not {first, child} & set(processes_of(folder))
    same_as_through(folder, tmp_path / "through")


def test_estimates_come_from_runs_of_the_same_kind(tmp_path):
    measured, alike, other = (
        GridRun("CBN", tiny(norm="CBN")),
        GridRun("LN", tiny(norm="LN", iterations=1000)),
        GridRun("MAML", tiny(learner="maml", iterations=1000)),
    )
    pretraining = GridRun("pretraining", PretrainSettings.of({"epochs": 30}))
    assert measured.at(tmp_path).kind() == alike.at(tmp_path).kind() != other.at(tmp_path).kind()
    assert seconds_left([alike], tmp_path, 1) is None
    run(measured.settings, tmp_path / "CBN")
    found = speeds([measured, alike], tmp_path)
    assert list(found) == [alike.at(tmp_path).kind()]
    assert min(found[alike.at(tmp_path).kind()]) > 0
    assert seconds_left([measured, alike], tmp_path, 1) == alike.at(tmp_path).seconds(found[alike.at(tmp_path).kind()])
    short = timings([measured, alike, other, pretraining], tmp_path)
    assert [one.name for one in short] == [
        f".timing/{other.at(tmp_path).kind()}",
        f".timing/{pretraining.at(tmp_path).kind()}",
    ]
    assert [one.settings.length for one in short] == [4, 2]


def test_estimated_seconds():
    values = {"norm": "CBN", "iterations": 100, "validate_every": 10, "validation_tasks": 5, "test_tasks": 7}
    # 100 iterations, 10 validations of 5 tasks under 3 norms, 7 tests of 3 norms with the final and best weights, and
    # calibration on the 5 validation tasks under 3 norms, under TBN twice
    seconds = 100 + 10 * 5 * 3 * 10 + 7 * 3 * 2 * 100 + 5 * 4 * 10
    assert run_of(tiny(**values), Path()).seconds(Speed(1, 10, 100)) == seconds
    # MAML's step is chosen on the 5 validation tasks before each of 6 tests
    assert run_of(tiny(learner="maml", **values), Path()).seconds(Speed(1, 10, 100)) == seconds + 5 * 6 * 10
    assert in_hours(3600) == "1 h 0 min"
