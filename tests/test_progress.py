"""Progress as a person sees it: in a real terminal, and in a pipe."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest

from tasknorm import progress
from tasknorm.progress import Progress

pty = pytest.importorskip("pty", reason="needs a terminal")


def in_terminal(words: list[str]) -> tuple[int, str]:
    """A command in a real terminal of 100 columns: its exit code, and all that it showed."""
    process, terminal = pty.fork()
    if process == 0:  # the command
        os.environ |= {"COLUMNS": "100", "LINES": "40", "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
        os.execv(sys.executable, [sys.executable, *words])
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the command has ended
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), shown.decode(errors="replace")


def seen(shown: str) -> str:
    """Without colours and movements of the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


@pytest.mark.usefixtures("glyph_cache")
def test_train_and_compare_in_a_terminal(tmp_path: Path) -> None:
    train = ["--learner", "protonets", "--filters", "8", "--iterations", "6", "--validate-every", "0"]
    train += ["--test-tasks", "40", "--train-way", "5", "--test-targets", "all,example", "--out", str(tmp_path / "run")]
    code, shown = in_terminal(["-m", "tasknorm", "train", *train])
    text = seen(shown)
    assert code == 0, text
    assert "training: loss " in text
    assert re.search(r"testing .*/ ?80 tasks", text)  # the test has a bar of its own
    assert "final TaskNorm-I" in text
    words = ["--norms", "LN", "--iterations", "3", "--tasks", "2", "--seeds", "2", "--processes", "1"]
    words += ["--out", str(tmp_path / "c")]
    code, shown = in_terminal(["-m", "tasknorm", "compare", *words])
    text = seen(shown)
    assert code == 0, text
    assert re.search(r"seed 1 of 2, .*━", text)  # one bar for the whole
    assert re.search(r"\d+ s left|estimating the time", text)
    assert "1 seed: accuracy" in text  # the table grows
    assert "2 seeds: accuracy" in text
    assert " done after " not in text  # these lines are for pipes


def test_in_a_pipe_there_is_a_line_a_minute(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with Progress("testing", 600, "tasks") as shown:
        for _ in range(300):
            now[0] += 0.5
            shown.add(1)
    assert capfd.readouterr().err.splitlines() == [
        "testing, 120 of 600 tasks, 4 min left",
        "testing, 240 of 600 tasks, 3 min left",
    ]
    assert progress.EVERY == 60


@pytest.mark.parametrize("total", [0, 1, 7])
def test_the_whole_is_done_only_at_the_end(total: int) -> None:
    with Progress("reading", total, "images", quiet=True) as shown:
        shown.update(total)
        assert shown._bar.tasks[0].completed <= max(0, total - 1)
    assert shown._bar.tasks[0].completed == total
