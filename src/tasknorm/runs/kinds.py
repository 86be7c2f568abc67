"""The kinds of runs, by their settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasknorm.runs.pretraining_run import PretrainingRun
from tasknorm.runs.run import AnySettings, Run
from tasknorm.runs.training_run import TrainingRun
from tasknorm.settings import PretrainSettings, Settings

RUNS: dict[type[AnySettings], type[Run[Any]]] = {Settings: TrainingRun, PretrainSettings: PretrainingRun}


def run_of(settings: AnySettings, folder: Path) -> Run[Any]:
    """The run with these settings, in this folder."""
    return RUNS[type(settings)](settings, folder)
