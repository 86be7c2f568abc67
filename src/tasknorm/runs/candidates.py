"""The candidates of a tuning: the pretrained network as it was, the norm at its start, and what training made of it.

The one that does best on the validation tasks is the run's: the label of its weights says which it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasknorm.evaluation import accuracies
from tasknorm.learners import Learner
from tasknorm.machine import Processes, chosen_device
from tasknorm.runs.parts import Tasks, as_norm, learner_of
from tasknorm.settings import AS_IT_WAS, START, Settings
from tasknorm.training import CANDIDATE, Candidate, RunFolder, label, read_label, read_metrics, weights_of


def validation_accuracies(
    learner: Learner, settings: Settings, episodes: Mapping[str, Tasks], processes: Processes
) -> dict[str, float]:
    """Accuracy on the validation tasks of each source; of a learner with steps, after the best."""
    tables = {
        source: accuracies(learner, episode, settings.validation_tasks, processes=processes)
        for source, episode in episodes.items()
    }
    return {source: float(table.mean(0).max()) for source, table in tables.items()}


def as_it_was(settings: Settings, episodes: Mapping[str, Tasks], processes: Processes) -> Candidate:
    """The pretrained network before anything was done to it, with batch norms in eval and class means."""
    learner = learner_of(settings.untouched).to(chosen_device(settings.device))
    about = label(settings.untouched.learner, settings.untouched.norm)
    return Candidate(validation_accuracies(learner, settings, episodes, processes), weights_of(learner), about)


def before_training(settings: Settings, which: str, norm: str) -> Learner:
    """The learner of a run before its training.

    Args:
        settings: the run's settings.
        which: "as it was" or "start".
        norm: label of the norm, for the start.
    """
    if which == AS_IT_WAS:
        return learner_of(settings.untouched).to(chosen_device(settings.device))
    return as_norm(learner_of(settings), norm, settings).to(chosen_device(settings.device))


def candidate_of(settings: Settings, path: Path) -> str | None:
    """Which candidate the weights in a file are; None if the run has none."""
    return read_label(path).get(CANDIDATE) if settings.as_it_was else None


def chosen(settings: Settings, files: RunFolder, validation: Mapping[str, Any]) -> dict[str, Any]:
    """For each norm that the run serves, which candidate was chosen, and the validation accuracy of each.

    Args:
        settings: the run's settings.
        files: the run's folder.
        validation: as `curves` returns it.
    """
    untouched = [line[AS_IT_WAS] for line in read_metrics(files.metrics) if AS_IT_WAS in line]
    found: dict[str, Any] = {}
    for norm in settings.tested_norms:
        names = [f"iteration {number:g}" if number else START for number in validation["iteration"]]
        of_norm = dict(zip(names, validation["accuracy"].get(norm, ()), strict=False))
        of_norm |= {AS_IT_WAS: untouched[0]} if untouched else {}
        found[norm] = {CANDIDATE: candidate_of(settings, files.best(norm, settings.norm)), "validation": of_norm}
    return found
