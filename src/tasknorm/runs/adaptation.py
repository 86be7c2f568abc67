"""A run put to use: its best weights adapted to classes of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tasknorm.data import Pictures
from tasknorm.learners import Predictor
from tasknorm.nets import is_backbone
from tasknorm.runs.calibration import calibration_of
from tasknorm.runs.candidates import candidate_of
from tasknorm.runs.meta_test import check_serves, in_chunks, loaded, settings_of, weights_file
from tasknorm.settings import AS_IT_WAS
from tasknorm.training import RunFolder


class Adapter:
    """A run's best weights, which adapt to classes of one's own, as often as one likes.

    Args:
        folder: the run's folder.
        norm: one of the norms that share the run's training; the run's own if left out.
        chunk: how many images pass through the nets at a time; if left out, as in the run, and 32 of a context of more
            than 256.

    Attributes:
        learner: the learner, in `eval()`; of a learner with steps, it takes as many as did best on validation tasks.
        norm: label of its norm; Baseline if the run chose its pretrained network as it was.
        network: name of its network, if it is one of others.
        candidate: of a tuning, which candidate the run chose (see `tasknorm.tune`); None for other runs.
        preparation: what happens to images before the net sees them.

    Raises:
        SettingsError: if the folder holds no finished training, or the norm is not of its training.
        DataError: if it is a run of version 0.1.0 that was never adapted, and its data are not there.
        WeightsError: if the run's weights are damaged.
    """

    def __init__(self, folder: Path | str, norm: str | None = None, *, chunk: int | None = None) -> None:
        files = RunFolder(Path(folder))
        settings = in_chunks(settings_of(files), chunk).model_copy(update={"recompute": False, "compile": False})
        self.norm = norm or settings.norm
        check_serves(settings, self.norm)
        self.preparation, self._calibration = calibration_of(settings, files, self.norm)
        weights = weights_file(settings, files, self.norm)
        self.learner = loaded(settings, weights, self.norm, channels=self.preparation.channels).eval()
        self.network = settings.net if is_backbone(settings.net) else None
        self.candidate = candidate_of(settings, weights)
        if self.candidate == AS_IT_WAS:
            self.norm = settings.untouched.norm
        if self._calibration is not None and self._calibration.step is not None:
            self.learner.test_steps = self._calibration.step

    def __call__(self, context: Mapping[str, Pictures], *, forget: bool = False) -> Predictor:
        """A predictor for new classes; see `adapted`."""
        predictor = self.learner.adapt_to(context, self.preparation, forget=forget)
        if self._calibration is not None:
            predictor.calibration = self._calibration.example
            predictor.calibration_together = self._calibration.all
        return predictor


def adapted(
    folder: Path | str,
    context: Mapping[str, Pictures],
    *,
    norm: str | None = None,
    forget: bool = False,
    chunk: int | None = None,
) -> Predictor:
    """A predictor of a run's best weights for new classes, which takes images as they are.

    Args:
        folder: the run's folder.
        context: images of each class by its name: paths, bytes of image files, Pillow images, arrays or tensors.
        norm: one of the norms that share the run's training; the run's own if left out.
        forget: leave the context out of the predictor, which then takes no more examples.
        chunk: how many images pass through the nets at a time (see `Adapter`).

    Raises:
        SettingsError: if the folder holds no finished training, or the norm is not of its training.
        DataError: if an image cannot be read, or classes or names cannot be used.
        WeightsError: if the run's weights are damaged.
    """
    return Adapter(folder, norm, chunk=chunk)(context, forget=forget)
