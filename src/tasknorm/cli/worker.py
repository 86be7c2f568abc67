"""The command line in a process that does one command after another: `python -m tasknorm.cli.worker`.

Each line of standard input is a JSON list: a log file, then the words of a command. What the command prints goes to the
log file; its exit code is a line of standard output. So torch is imported once, and each run is what the command line
would make of it. As `with_parent`, the process ends when standard input closes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

STOPPED = 128  # and more: the exit code after a signal


def orders() -> SimpleQueue[list[str]]:
    """The lines of standard input as they arrive; its end is the end of this process."""
    found: SimpleQueue[list[str]] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            found.put(json.loads(line))
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    return found


@contextmanager
def printing_to(path: str) -> Iterator[None]:
    """Everything that is printed inside, by whatever code, goes to the end of a file."""
    with open(path, "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def exit_code(words: list[str]) -> int:
    """Do a command of the command line: its exit code."""
    from tasknorm.cli import app

    try:
        app(words, prog_name="tasknorm")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # a bug: the log tells, and other runs go on
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Do commands until a signal stops one."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    waiting = orders()
    import tasknorm.runs  # noqa: F401  (while nothing is asked for yet)

    while True:
        log, *words = waiting.get()
        with printing_to(log):
            code = exit_code(words)
        print(code, file=answers)
        if code > STOPPED:
            return


if __name__ == "__main__":
    main()
