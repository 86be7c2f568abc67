"""The learner of a run as one graph, for use elsewhere."""

from __future__ import annotations

from pathlib import Path

from tasknorm.errors import SettingsError
from tasknorm.learners import export_learner
from tasknorm.runs.adaptation import Adapter
from tasknorm.runs.meta_test import settings_of
from tasknorm.training import RunFolder


def export_run(folder: Path | str, file: Path | str, norm: str | None = None) -> None:
    """Write the learner of a run as one graph (see `tasknorm.learners.export_learner`).

    The file's entry "tasknorm" also says how images are prepared.

    Args:
        folder: the run's folder.
        file: ends in .onnx or .pt2.
        norm: one of the norms that share the run's training; the run's own if left out.

    Raises:
        SettingsError: if the folder holds no finished training, its learner learns by gradients, the norm is not of its
            training, or the file's name ends otherwise.
        WeightsError: if the run's weights are damaged.
    """
    run = Adapter(folder, norm)
    try:
        export_learner(run.learner.cpu(), file, about={"preparation": run.preparation.model_dump()})
    except ValueError as error:
        raise SettingsError(str(error)) from None


def served_norms(folder: Path | str) -> tuple[str, ...]:
    """Labels of the norms that a run's training serves, its own first.

    Raises:
        SettingsError: if the folder holds no finished training.
    """
    settings = settings_of(RunFolder(Path(folder)))
    return settings.norm, *(norm for norm in settings.tested_norms if norm != settings.norm)
