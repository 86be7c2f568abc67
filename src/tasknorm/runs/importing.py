"""Weights that CNAPs' authors released as a run, or as the weights of a pretraining."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tasknorm.data import Preparation
from tasknorm.files import atomic_folder, sync
from tasknorm.learners import Learner
from tasknorm.nets import resnet18
from tasknorm.norms import CBN
from tasknorm.runs.calibration import RunCalibration
from tasknorm.runs.parts import learner_of
from tasknorm.runs.paths import with_absolute_paths
from tasknorm.settings import Settings
from tasknorm.training import (
    EXTRACTOR,
    RunFolder,
    as_ours,
    label,
    read_released,
    weights_of,
    write_weights,
)

META_TRAIN = ("ilsvrc_2012", "omniglot_alphabets", "aircraft", "cu_birds", "dtd", "quickdraw", "fungi", "vgg_flower")
META_TEST = (*META_TRAIN, "traffic_sign", "mscoco", "mnist", "cifar10", "cifar100")

# What the authors' code says of this training: 40,000 tasks, 16 in each step; see CNAPs and ProtoNets for the rest.
RELEASED: dict[str, Any] = {
    "learner": "cnaps",
    "norm": "TaskNorm-I",
    "net": "resnet18",
    "source": META_TRAIN,
    "test_sources": META_TEST,
    "sampling": "variable",
    "alpha": "functional-shared",
    "unbiased": True,
    "image_size": 84,
    "colour": True,
    "scale": "signed",
    "iterations": 40_000 // 16,
    "learning_rate": 1e-3,
    "validate_every": 0,
    "validation_tasks": 0,
}


def import_cnaps(file: Path | str, folder: Path | str, test_sources: str | None = None) -> Path:
    """Make a run from the weights that CNAPs' authors released: FiLM with TaskNorm, or the pretrained ResNet alone.

    Args:
        file: `meta_trained_film+task_norm.pt`, for a run that `evaluate`, `adapt` and `export` take; or
            `pretrained_resnet.pt.tar`, for weights that `train --pretrained` takes.
        folder: the new run's folder.
        test_sources: names of the data sets that `evaluate` tests on, separated by commas; the paper's 13 if left out.

    Returns:
        The file of weights.

    Raises:
        WeightsError: if the file cannot be read, or a tensor does not fit; names it.
        SettingsError: if the names of data sets cannot be used.
        DataError: if there is something at the folder's path.
    """
    file, files = Path(file), RunFolder(Path(folder))
    found = read_released(file)
    if "conv1.weight" in found:
        net = resnet18(CBN)
        net.load_state_dict(as_ours(found, net.state_dict(), file, "extractor."))
        with atomic_folder(files.path) as part:
            write_weights(RunFolder(part).extractor, weights_of(net), EXTRACTOR)
        return files.extractor
    given = {"test_sources": test_sources} if test_sources else {}
    settings = Settings.of(with_absolute_paths(RELEASED | given))
    learner = learner_of(settings)
    learner.load_state_dict(learner.state_dict() | as_ours(found, learner.state_dict(), file))
    with atomic_folder(files.path) as part:
        _write_run(RunFolder(part), settings, learner)
    return files.final


def _write_run(files: RunFolder, settings: Settings, learner: Learner) -> None:
    """Write weights, settings and the preparation of images."""
    write_weights(files.final, weights_of(learner), label(settings.learner, settings.trained_norm))
    preparation = Preparation(size=settings.image_size, channels=3, scale=settings.scale)
    kept = RunCalibration(tasknorm=version("tasknorm"), preparation=preparation, norms={})
    texts = {
        files.config: json.dumps(settings.values(), indent=2),
        files.calibration: kept.model_dump_json(indent=1),
    }
    for path, text in texts.items():
        path.write_text(f"{text}\n", encoding="utf-8")
        sync(path)
