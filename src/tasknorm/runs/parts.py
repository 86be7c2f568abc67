"""The parts of a run, from its settings: learner, norms and tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch

from tasknorm.conversion import convert
from tasknorm.data import (
    SCALINGS,
    Cached,
    Direct,
    Episodes,
    FixedSampler,
    Images,
    LeftOut,
    Mixture,
    ResizeName,
    Sampler,
    Source,
    Spec,
    VariableSampler,
    data_folder,
    folded,
    images_by_class,
    left_out_classes,
    left_out_images,
    opened,
    scaled,
    task_classes,
    usable,
)
from tasknorm.episode import Episode
from tasknorm.errors import DataError, SettingsError
from tasknorm.learners import Learner
from tasknorm.nets import is_backbone
from tasknorm.runs.network import freeze_large, network_of, norm_maker
from tasknorm.settings import Settings
from tasknorm.training import recompute

Tasks = Callable[[int], Episode]

LARGEST_CACHE = 1 << 36  # bytes; ILSVRC at 84 pixels needs 2^35, all of Quick Draw 2^40


def learner_of(settings: Settings, *, pretrained: bool = True, channels: int | None = None) -> Learner:
    """A learner with the run's initial weights.

    Args:
        settings: the run's settings.
        pretrained: read pretrained weights, if the run starts from them; False where others will take their place.
        channels: of the images, if they are known; the run's sources are opened otherwise.
    """
    torch.manual_seed(settings.seed)
    net = network_of(settings, channels or channels_of(settings), pretrained=pretrained)
    if settings.recompute:
        try:
            recompute(net)
        except ValueError as error:
            raise SettingsError(f"net={settings.net}: {error}") from None
    own = settings.own.model_dump(exclude_none=True)
    learner = settings.kind.of(net, norm_maker(settings), own, compiled=settings.compile)
    if settings.tuned == "small":
        freeze_large(learner)
    if settings.chunk is None:
        return learner
    try:
        return learner.in_chunks(settings.chunk, lean=settings.recompute)
    except ValueError as error:
        raise SettingsError(f"net={settings.net}: {error}") from None


def task_of(
    settings: Settings,
    split: str,
    seed: int | None = None,
    *,
    sources: Sequence[str] | None = None,
    way: int | None = None,
) -> Callable[[int], Episode]:
    """Task number i of a split, scaled for the net; images of training tasks are augmented before.

    Args:
        settings: the run's settings.
        split: train, valid or test.
        seed: the tasks' seed; the run's if left out.
        sources: each task comes from one of these; from the run's if left out.
        way: classes of a task, unless they vary; the run's if left out.
    """
    channels = channels_of(settings)
    chosen = [opened_once(source, settings.skip_bad) for source in sources or settings.sources]
    samplers = [sampler_of(settings, source.spec, split, way) for source in chosen]
    images = [
        images_of(source, settings.image_size, channels, settings.resize) for source in chosen
    ]  # last: it may take an hour
    sampler = samplers[0] if len(samplers) == 1 else Mixture(samplers)
    augment = settings.augmentations if split == "train" else ()
    episodes = Episodes(images, sampler, settings.seed if seed is None else seed, augment=augment)
    return lambda number: scaled(episodes[number], SCALINGS[settings.scale])


def prepare(settings: Settings) -> None:
    """Decode the images of all sources into their caches, unless they are there.

    Raises:
        DataError: if an image is bad; names it.
    """
    for source in settings.all_sources:
        chosen = opened_once(source, settings.skip_bad)
        images_of(chosen, settings.image_size, channels_of(settings), settings.resize)


def images_of(source: Source, size: int, channels: int, resize: ResizeName | None = None) -> Images:
    """A source's images from its cache, or straight from its files where a cache would fill a disk."""
    needed = sum(images_by_class(source.spec)) * source.channels * size**2
    kind = Cached if needed <= LARGEST_CACHE else Direct
    return kind(source, size, channels, resize=resize)


def sampler_of(settings: Settings, spec: Spec, split: str, way: int | None = None) -> Sampler:
    """Which images make a task; in meta-training, tasks may have other ways and targets than in testing."""
    spec = folded(spec, settings.fold)
    if split == "test" and not ("test" in spec.splits and spec.splits["test"].classes):
        raise DataError(
            f"{spec.name}: there are no test classes; give it a splits file with some, or train without a test: "
            "--test-tasks 0"
        )
    part = task_classes(spec, split, *_needed(settings, split), skip_small=settings.skip_bad)
    trains = split == "train"
    targets = settings.train_targets if trains else settings.targets
    if settings.sampling == "variable":
        test_caps = settings.test_max_way, settings.test_max_context
        max_way, max_context = (settings.max_way, settings.max_context) if trains else test_caps
        return VariableSampler(part, max_way, max_context, max_targets=targets)
    way = way or (settings.train_way if trains else settings.way)
    if way > len(part.classes):
        setting = "train_way" if trains and settings.train_way != settings.way else "way"
        raise DataError(
            f"{spec.name}: {way}-way tasks need {way} classes, and its {split} split has {len(part.classes)} of all "
            f"{len(spec.class_names)}; lower {setting}, or give it a splits file with more {split} classes"
        )
    return FixedSampler(part, way, settings.shot, targets, settings.rotate)


def check_test_tasks(settings: Settings) -> None:
    """Refuse test tasks that the data cannot give before the training, not after it."""
    for source in settings.tested_sources if settings.test_tasks else ():
        for way in settings.tested_ways:
            sampler_of(settings, opened_once(source, settings.skip_bad).spec, "test", way)


def _needed(settings: Settings, split: str) -> tuple[int, int]:
    """Context and target images of each class that a task of this split needs."""
    if settings.sampling == "variable":
        return 1, 1
    return settings.shot, settings.train_targets if split == "train" else settings.targets


def left_out(settings: Settings) -> list[LeftOut]:
    """What the run does without: bad images, and classes that are too small for its tasks; nothing by default."""
    if not settings.skip_bad:
        return []
    sources = {name: opened_once(name, skip_bad=True) for name in settings.all_sources}
    used = {
        "train": settings.sources,
        "valid": validated_sources(settings) if settings.validate_every else (),
        "test": settings.tested_sources if settings.test_tasks else (),
    }
    rows = [row for name, source in sources.items() for row in left_out_images(name, source)]
    for split, names in used.items():
        for name in names:
            rows += left_out_classes(name, folded(sources[name].spec, settings.fold), split, *_needed(settings, split))
    return rows


def validated_sources(settings: Settings) -> tuple[str, ...]:
    """The sources to validate on: those that were named, or the training sources that have classes for it.

    Raises:
        DataError: if one that was named has none.
    """
    named = settings.validation_sources
    sources = named.split(",") if named else settings.sources
    specs = {source: folded(opened_once(source).spec, settings.fold) for source in sources}
    valid = tuple(source for source, spec in specs.items() if spec.splits["valid"].classes)
    if named and len(valid) < len(sources):
        raise DataError(
            f"validation needs classes in the valid split, and of {named} only {', '.join(valid) or 'none'} has some; "
            "leave the others out of validation_sources, or name valid classes in their splits files"
        )
    return valid


def channels_of(settings: Settings) -> int:
    """Channels of the net's images: 3 if one of the sources has colour, to which grey images are then raised.

    Networks of others take 3 channels.
    """
    if settings.colour or is_backbone(settings.net):
        return 3
    return max(opened_once(source).channels for source in settings.all_sources)


def opened_once(source: str, skip_bad: bool = False) -> Source:
    """A source, read from its place once in a process: listing a large archive takes a second.

    Args:
        source: its name or path.
        skip_bad: without the images that cannot be read.
    """
    return _opened(source, skip_bad, data_folder())


@cache
def _opened(source: str, skip_bad: bool, root: Path) -> Source:
    return usable(_opened(source, False, root)) if skip_bad else opened(source, root)


def as_norm(learner: Learner, norm: str, settings: Settings) -> Learner:
    """The learner with its weights under a norm that shares its training; itself if the norm is its own."""
    if norm == settings.trained_norm:
        return learner
    return convert(learner, norm, where=learner.converted)
