"""One run: its folder, its record, and its parts built from its settings."""

from tasknorm.runs.adaptation import Adapter, adapted
from tasknorm.runs.export import export_run, served_norms
from tasknorm.runs.importing import import_cnaps
from tasknorm.runs.kinds import run_of
from tasknorm.runs.meta_test import evaluated
from tasknorm.runs.parts import left_out, opened_once, prepare, sampler_of
from tasknorm.runs.record import Record, Result, read_record, records
from tasknorm.runs.run import AnySettings, Run
from tasknorm.runs.settled import settled
from tasknorm.runs.speed import Speed
from tasknorm.runs.tuning import tune

__all__ = [
    "Adapter",
    "AnySettings",
    "Record",
    "Result",
    "Run",
    "Speed",
    "adapted",
    "evaluated",
    "export_run",
    "import_cnaps",
    "left_out",
    "opened_once",
    "prepare",
    "read_record",
    "records",
    "run_of",
    "sampler_of",
    "served_norms",
    "settled",
    "tune",
]
