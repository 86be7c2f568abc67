"""Small runs on glyphs for tests: settings, and the command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tasknorm.runs import run_of
from tasknorm.settings import PretrainSettings, Settings

TINY = {
    "source": "glyphs",
    "filters": 8,
    "iterations": 12,
    "meta_batch": 4,
    "train_way": 5,
    "train_targets": 2,
    "targets": 2,
    "validate_every": 5,
    "validation_tasks": 4,
    "test_tasks": 4,
    "checkpoint_every": 4,
    "device": "cpu",
}


def tiny(**changes) -> Settings:
    """Settings of a run of a second."""
    return Settings.of({"learner": "protonets"} | TINY | changes)


def run(settings: Settings | PretrainSettings, folder: Path) -> dict[str, Any]:
    """Do a run in this process: its record."""
    return run_of(settings, folder).do()


def flags(settings: Settings) -> list[str]:
    """The same settings as words of a command."""
    words = []
    for name, value in settings.values().items():
        if value is None:
            continue
        flag = name.replace("_", "-")
        words += [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    return words


def started(
    *words: object, launcher: tuple[str, ...] = (), threads: int | None = 1, **variables: str
) -> subprocess.Popen[str]:
    """`tasknorm words` in a process of its own; with `threads=None` as a shell without thread variables starts it."""
    command = [sys.executable, *launcher, "-m", "tasknorm", *map(str, words)]
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")} | variables
    environment |= {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code and what it wrote, when it has ended."""
    out, err = process.communicate(timeout=400)
    return process.returncode, out, err


def wait_for_lines(path: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Until a file has so many lines, or the process has ended."""
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < count):
        time.sleep(0.002)
