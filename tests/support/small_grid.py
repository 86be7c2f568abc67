"""A grid of two runs on glyphs, for tests; as a script, `python -m support.small_grid FOLDER ENGINE` does them."""

from __future__ import annotations

import sys
from pathlib import Path

from support.runs import tiny
from tasknorm.grid.grid import run_grid
from tasknorm.grid.grid_run import GridRun

LONG = {"iterations": 200, "validate_every": 60, "checkpoint_every": 7, "test_tasks": 2}


def small_grid() -> list[GridRun]:
    """Two runs of a few seconds."""
    return [GridRun(norm, tiny(norm=norm, **LONG)) for norm in ("CBN", "TaskNorm-I")]


if __name__ == "__main__":
    failed = run_grid(small_grid(), Path(sys.argv[1]), sys.argv[2], processes=2, timed=False)
    sys.exit(1 if failed else 0)
