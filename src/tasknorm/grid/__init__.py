"""Many runs: a grid on local processes or a Ray cluster; the paper's tables and figures as grids."""

from tasknorm.grid.estimates import keep_timings, seconds_left, speeds, timings
from tasknorm.grid.experiments import DIAGRAMS, Experiment, all_runs, experiment, names
from tasknorm.grid.grid import Say, run_grid, tell
from tasknorm.grid.grid_run import GridRun

__all__ = [
    "DIAGRAMS",
    "Experiment",
    "GridRun",
    "Say",
    "all_runs",
    "experiment",
    "keep_timings",
    "names",
    "run_grid",
    "seconds_left",
    "speeds",
    "tell",
    "timings",
]
