"""Many runs: a grid on local processes or a Ray cluster; the paper's tables and figures as grids."""

from tasknorm.grid.estimates import keep_timings, seconds_left, speeds, timings
from tasknorm.grid.experiments import DIAGRAMS, Experiment, all_runs, experiment, names
from tasknorm.grid.grid import Engine, Say, check_runs, do_runs, run_grid, stoppable, tell
from tasknorm.grid.grid_run import GridRun
from tasknorm.grid.pool_engine import PoolEngine

__all__ = [
    "DIAGRAMS",
    "Engine",
    "Experiment",
    "GridRun",
    "PoolEngine",
    "Say",
    "all_runs",
    "check_runs",
    "do_runs",
    "experiment",
    "keep_timings",
    "names",
    "run_grid",
    "seconds_left",
    "speeds",
    "stoppable",
    "tell",
    "timings",
]
