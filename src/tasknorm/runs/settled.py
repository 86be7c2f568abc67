"""The settings of a run that a command asks for: flags, a config file, and what the run in the folder has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tasknorm.errors import SettingsError
from tasknorm.runs.kinds import RUNS
from tasknorm.runs.paths import with_absolute_paths
from tasknorm.runs.run import S
from tasknorm.settings import parsed, read_config
from tasknorm.training import RunFolder, last_iteration


def settled(
    kind: type[S],
    given: Mapping[str, Any],
    folder: Path,
    resume: bool,
    config: Path | None = None,
    filled: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
) -> S:
    """The settings of the run in a folder.

    Args:
        kind: the class of the settings.
        given: settings given by flags; they win over the config file.
        folder: the run's folder.
        resume: whether to continue the run that is there.
        config: a file of settings.
        filled: adds settings to the given ones, for a run that is new.

    Raises:
        SettingsError: if the folder is in use and is not to be resumed, or the settings contradict the run in it.
    """
    given = with_absolute_paths((read_config(config) if config else {}) | dict(given))
    files, name = RunFolder(folder), RUNS[kind].name
    if not files.in_use:
        return kind.of(filled(given))
    if not resume:
        raise SettingsError(
            f"{folder}: this folder is not empty; add --resume to continue its {name}, or choose another folder"
        )
    if not files.config.exists():
        raise SettingsError(f"{folder}: no run to resume in this folder (no config.json); choose another")
    recorded = with_absolute_paths(read_config(files.config))
    if kind.length_name not in recorded:
        raise SettingsError(
            f"{folder}: no {name} to resume in this folder, it holds another kind of run; choose another"
        )
    before: S = kind.of(recorded)
    for key in given.keys() & recorded.keys() - set(before.machine):
        value = parsed(key, given[key], kind.fields())
        longer = key == kind.length_name and isinstance(value, int) and value >= last_iteration(files.checkpoints)
        if value != recorded[key] and not longer:
            raise SettingsError(
                f"{key}={value} contradicts the run in {folder}, which has {key}={recorded[key]}; leave it out"
            )
    kind.of(recorded | given)  # refuses what is no setting
    changed = (*before.machine, kind.length_name)
    return kind.of(recorded | {key: value for key, value in given.items() if key in changed})
