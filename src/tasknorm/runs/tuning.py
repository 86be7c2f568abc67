"""Tuning in one call: minutes of meta-training of what is small in a pretrained network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasknorm.runs.kinds import run_of
from tasknorm.runs.record import Record, read_record
from tasknorm.runs.settled import settled
from tasknorm.settings import Settings, for_tuning


def tune(out: Path | str, *, resume: bool = False, config: Path | str | None = None, **settings: Any) -> Record:
    """Tune a pretrained network for few-shot tasks, chosen on validation tasks, and test it.

    What is small is trained: gamma and beta, TaskNorm's alpha, a temperature, CNAPs' generators. The network as it was
    and the norm at its start are among the candidates, so that the result is never worse than these on validation.

    Args:
        out: the run's folder, new or empty; `tasknorm.runs.adapted(out, ...)` then puts the run to use.
        resume: continue the run in the folder.
        config: TOML or JSON file of settings; those given here win over it.
        **settings: `net`, `pretrained`, `source`, `norm` and any other setting (see `tasknorm tune --help`).

    Returns:
        The run's record: `result["chosen"]` says which candidate it is, `results` are its accuracies on test tasks.

    Raises:
        SettingsError: if a setting is wrong, or the folder is in use.
        DataError: if the source cannot give such tasks.
        WeightsError: if the pretrained weights are damaged or of another network.
    """
    folder = Path(out)
    wanted = settled(Settings, settings, folder, resume, None if config is None else Path(config), for_tuning)
    run_of(wanted, folder).do()
    return read_record(folder)
