"""One run from its description: train, test, and what stays in its folder."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tasknorm.convert import convert
from tasknorm.data import Cached, Episodes, FixedSampler, opened, scaled, signed, standard, unit
from tasknorm.data.atomic import write_atomically
from tasknorm.data.source import chosen_split
from tasknorm.episode import Episode
from tasknorm.evaluate import TARGETS, Evaluation, Targets, accuracies, evaluate
from tasknorm.learners import LEARNERS
from tasknorm.nets import NETS
from tasknorm.norms import NORMS
from tasknorm.norms.batch_renorm import BRN
from tasknorm.ranks import Ranks, ranks
from tasknorm.settings import Settings, SettingsError, read_config
from tasknorm.train import best_name, train
from tasknorm.weights import label, read_weights, weights_of, write_weights

CONFIG, RESULT, FINAL = "config.json", "result.json", "model.safetensors"
MACHINE = ("device", "workers", "tensorboard", "at_once")  # may differ when a run goes on
SCALES = {"unit": unit, "signed": signed, "standard": standard}


def run(settings: Settings, folder: Path) -> dict[str, Any]:
    """Train, test and record one run; goes on from its newest checkpoint, and does nothing if it is finished.

    Returns:
        The contents of `result.json`.
    """
    if (folder / RESULT).exists():
        print(f"{folder}: finished already", file=sys.stderr)
        return dict(json.loads((folder / RESULT).read_bytes()))
    device = chosen_device(settings.device)
    with ranks(device.type) as all_ranks:
        if all_ranks.count > settings.meta_batch:
            raise SettingsError(
                f"meta_batch={settings.meta_batch} tasks cannot be shared by {all_ranks.count} processes; start fewer"
            )
        if all_ranks.first and not (folder / CONFIG).exists():
            write_atomically(folder / CONFIG, (settings.model_dump_json(indent=2) + "\n").encode())
        began = time.monotonic()
        learner = learner_of(settings).to(device)
        valid = partial(validation, settings=settings, episode=task_of(settings, "valid"), all_ranks=all_ranks)
        train(learner, settings, task_of(settings, "train"), valid, folder, all_ranks)
        seconds = time.monotonic() - began
        weights = weights_of(learner)
        if all_ranks.first:
            write_weights(folder / FINAL, weights, label(settings.learner, settings.trained_norm))
        result = {"tasknorm": version("tasknorm"), "torch": torch.__version__, "seconds": seconds}
        result |= accuracies_of(settings, folder, all_ranks) if settings.test_tasks else {}
        if all_ranks.first:
            write_atomically(folder / RESULT, (json.dumps(result, indent=2) + "\n").encode())
    return result


def learner_of(settings: Settings) -> nn.Module:
    """A learner with the run's initial weights."""
    torch.manual_seed(settings.seed)
    channels = opened(settings.source).channels
    options: dict[str, Any] = {"image_shape": (channels, settings.image_size, settings.image_size)}
    options |= {"filters": settings.filters} if settings.filters else {}
    options |= {"way": settings.way} if settings.learner == "maml" else {}
    net = NETS[settings.net](norm_maker(settings), **options)
    names = ("inner_lr", "inner_steps", "test_steps", "first_order", "at_once", "reduction")
    chosen = {name: getattr(settings, name) for name in names if getattr(settings, name) is not None}
    if settings.learner == "maml":
        return LEARNERS["maml"](net, compiled=settings.compile, **chosen)
    if settings.compile:
        net.compile()
    return LEARNERS[settings.learner](net, **chosen)


def norm_maker(settings: Settings) -> Callable[[int], nn.Module]:
    """Makes the norms that meta-training uses."""
    kind = NORMS[settings.trained_norm]
    options: dict[str, Any] = {
        "eps": settings.eps,
        "affine": {"all": True, "none": False}.get(settings.affine, "offset"),
    }
    if settings.alpha is not None:
        options |= {"alpha": settings.alpha}
    if issubclass(kind, BRN):
        options |= {"schedule": min(40_000, 2 * settings.iterations)}  # two updates for each iteration

    def norm(channels: int) -> nn.Module:
        made = kind(channels, **options)
        made.momentum = settings.momentum
        return made

    return norm


def task_of(settings: Settings, split: str, seed: int | None = None) -> Callable[[int], Episode]:
    """Task number i of a split, scaled for the net."""
    images = Cached(opened(settings.source), settings.image_size)
    training = split == "train"
    sampler = FixedSampler(
        chosen_split(images.spec, split),
        settings.train_way if training else settings.way,
        settings.shot,
        settings.train_targets if training else settings.targets,
        settings.rotate,
    )
    episodes = Episodes(images, sampler, settings.seed if seed is None else seed)
    return lambda number: scaled(episodes[number], SCALES[settings.scale])


def validation(
    learner: nn.Module, settings: Settings, episode: Callable[[int], Episode], all_ranks: Ranks
) -> dict[str, float]:
    """Accuracy on the validation tasks under each norm that the weights serve."""
    found = {}
    for norm in settings.tested_norms:
        table = accuracies(as_norm(learner, norm, settings), episode, settings.validation_tasks, ranks=all_ranks)
        found[norm] = float(table.mean(0).max())
    return found


def chosen_step(learner: nn.Module, settings: Settings, all_ranks: Ranks | None) -> int | None:
    """MAML's inner step with the best accuracy on the validation tasks; None for learners without steps."""
    if not hasattr(learner, "steps"):
        return None
    table = accuracies(learner, task_of(settings, "valid"), settings.validation_tasks, ranks=all_ranks)
    return 1 + int(table.mean(0).argmax())


def as_norm(learner: nn.Module, norm: str, settings: Settings) -> nn.Module:
    """The learner with its weights under a norm that shares its training; itself if the norm is its own."""
    return learner if norm == settings.trained_norm else convert(learner, norm)


def accuracies_of(
    settings: Settings,
    folder: Path,
    all_ranks: Ranks | None = None,
    *,
    norms: Sequence[str] | None = None,
    targets: Sequence[Targets] = ("all",),
    tasks: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Test a run's final and best weights: `{"final": {norm: {targets: evaluation}}, "best": ...}`.

    MAML's inner step is chosen on the validation tasks.
    """
    results: dict[str, Any] = {}
    for which in ("final", "best"):
        for norm in norms or settings.tested_norms:
            path = folder / (FINAL if which == "final" else best_name(norm, settings))
            if which == "best" and not settings.validate_every:
                continue
            learner = loaded(settings, path, norm, all_ranks)
            step = chosen_step(learner, settings, all_ranks)
            test = task_of(settings, "test", seed)
            for way in targets:
                found = evaluate(learner, test, tasks or settings.test_tasks or 600, way, step=step, ranks=all_ranks)
                results.setdefault(which, {}).setdefault(norm, {})[way] = described(found)
    return results


def evaluated(folder: Path, targets: Sequence[str], norm: str | None, tasks: int, seed: int) -> dict[str, Any]:
    """Test the run in a folder (see `accuracies_of`).

    Raises:
        SettingsError: if the folder holds no finished training, or a choice is unknown.
    """
    if not (folder / FINAL).exists():
        raise SettingsError(f"{folder}: to evaluate, a folder must hold a run's {FINAL}; finish its training first")
    for way in targets:
        if way not in TARGETS:
            raise SettingsError(f"targets are {', '.join(TARGETS)}, got {way!r}; name some of these")
    settings = Settings.of(read_config(folder / CONFIG))
    norms = (norm or settings.norm,)
    chosen = [way for way in TARGETS if way in targets]
    return accuracies_of(settings, folder, norms=norms, targets=chosen, tasks=tasks, seed=seed)


def loaded(settings: Settings, path: Path, norm: str, all_ranks: Ranks | None = None) -> nn.Module:
    """A trained learner, under a norm that shares its training; the first process reads its weights."""
    if norm not in settings.tested_norms:
        raise SettingsError(
            f"norm={norm} contradicts the run, which trained {settings.trained_norm} and serves "
            f"{', '.join(settings.tested_norms)}; choose one of these"
        )
    learner = learner_of(settings)
    all_ranks = all_ranks or Ranks()
    about = label(settings.learner, settings.trained_norm)
    learner.load_state_dict(all_ranks.same(read_weights(path, about) if all_ranks.first else None))
    return as_norm(learner, norm, settings).to(chosen_device(settings.device))


def described(found: Evaluation) -> dict[str, Any]:
    """An evaluation as JSON has it."""
    values = {"targets": found.targets, "tasks": found.tasks, "label": found.label} | asdict(found.mean)
    if not found.steps:
        return values
    steps = [asdict(mean) for mean in found.steps]
    return values | {"step": found.step, "maximum": asdict(found.maximum), "steps": steps}


def settled(given: dict[str, Any], config: Path | None, folder: Path, resume: bool) -> Settings:
    """The settings of the run in a folder: what its config says, or a config file and flags.

    Raises:
        SettingsError: if the folder is in use and is not to be resumed, or the settings contradict the run in it.
    """
    given = (read_config(config) if config else {}) | given
    used = folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir())
    if used and not resume:
        raise SettingsError(f"{folder}: a run needs an empty folder, and this is not; add --resume or choose another")
    if not used:
        return Settings.of(given)
    if not (folder / CONFIG).exists():
        raise SettingsError(f"{folder}: to resume, a folder must hold a run's {CONFIG}, and this has none")
    recorded = read_config(folder / CONFIG)
    for key, value in Settings.of(recorded | given).model_dump().items():
        if key in given and key not in MACHINE and value != recorded.get(key):
            raise SettingsError(
                f"{key}={value} contradicts the run in {folder}, which has {key}={recorded.get(key)}; leave it out"
            )
    return Settings.of(recorded | {key: value for key, value in given.items() if key in MACHINE})


def chosen_device(name: str) -> torch.device:
    """A device by its name; auto takes cuda, then mps, then the processor.

    Raises:
        SettingsError: if this machine has no such device.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device, found in there.items() if found))
    if not there[name]:
        raise SettingsError(f"device={name} is not on this machine; it has {', '.join(d for d in there if there[d])}")
    return torch.device(name)
