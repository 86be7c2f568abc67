"""A report is whole: the earlier one or the new one, whenever its writer is killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from support.made_up_records import record, row
from tasknorm.errors import DataError
from tasknorm.report import write_report

ROWS = row("TaskNorm-I", "glyphs", 5, 1, 0.9, 0.01)


def runs(count):
    return [record(ROWS, learner="protonets", source="glyphs", seed=seed) for seed in range(count)]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_killed_writer_leaves_the_earlier_report_or_the_new_one(tmp_path):
    one, two, out = (tmp_path / name for name in ("one", "two", "killed"))
    write_report(runs(1), one)
    write_report(runs(2), two)
    write_report(runs(1), out)
    code = f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from support.made_up_records import record
        from tasknorm.report import write_report
        rows = {json.dumps(ROWS).replace("null", "None")}
        made = [record(rows, learner="protonets", source="glyphs", seed=seed) for seed in range(2)]
        while True:
            for count in (2, 1):
                write_report(made[:count], Path({str(out)!r}))
                print("written", flush=True)
    """
    for _ in range(3):
        command = [sys.executable, "-c", textwrap.dedent(code)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        time.sleep(random.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert contents(out) in (contents(one), contents(two))
    write_report(runs(2), out)
    assert contents(out) == contents(two)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "one", "two"]  # nothing unfinished


def test_only_a_report_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("all of it")
    with pytest.raises(DataError, match=r"this folder holds 'thesis.tex', which is no part of a report"):
        write_report(runs(1), tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "all of it"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(DataError, match="cannot replace the folder that you are in"):
        write_report(runs(1), Path())
    (tmp_path / "link").symlink_to(tmp_path / "there")
    paths = write_report(runs(1), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert all(path.is_file() for path in paths)
