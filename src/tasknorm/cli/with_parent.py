"""The command line in a process that ends with the one that started it: `python -m tasknorm.cli.with_parent train ...`.

The parent holds the other end of standard input and never writes. Its death, of whatever cause, closes it; this
process then ends at once, so that whoever goes on with the same run is alone with it.
"""

from __future__ import annotations

import os
import sys
import threading


def end_with_parent() -> None:
    """End this process when standard input closes."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    from tasknorm.cli import app

    app(prog_name="tasknorm")
