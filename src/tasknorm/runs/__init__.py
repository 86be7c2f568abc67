"""One run: its folder, its record, and its parts built from its settings."""

from tasknorm.runs.kinds import run_of
from tasknorm.runs.meta_test import evaluated
from tasknorm.runs.parts import left_out, opened_once, sampler_of
from tasknorm.runs.record import Record, Result, read_record, records
from tasknorm.runs.run import AnySettings, Run
from tasknorm.runs.settled import settled
from tasknorm.runs.speed import Speed

__all__ = [
    "AnySettings",
    "Record",
    "Result",
    "Run",
    "Speed",
    "evaluated",
    "left_out",
    "opened_once",
    "read_record",
    "records",
    "run_of",
    "sampler_of",
    "settled",
]
