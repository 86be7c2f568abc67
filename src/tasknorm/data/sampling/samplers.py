"""Episodes as indices, drawn from a split alone: which classes, which images.

Fixed way and shot (Vinyals et al., 2016), and Meta-Dataset's variable way and shot (Triantafillou et al.,
2020, section 3.2 and appendix). Episode i of seed s is always the same episode: `draw` is a pure function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tasknorm.data.sampling.episode_images import Draw, Sampler
from tasknorm.data.sampling.random_stream import Integers, Stream, exp
from tasknorm.data.spec import Split
from tasknorm.errors import DataError

LN2 = 0.6931471805599453
MIXTURE = 1  # the purpose of the stream that chooses a source


@dataclass(frozen=True)
class FixedSampler:
    """Episodes with the same way, shot and number of targets; a split's groups are not used.

    Args:
        split: the classes to draw from.
        way: classes of an episode.
        shot: context images of each class.
        targets: target images of each class.
        rotate: turn each class by 0, 90, 180 or 270 degrees, as MAML does with Omniglot.

    Raises:
        DataError: if the split has fewer classes, or a class fewer images, than an episode needs.

    >>> sampler = FixedSampler(Split(classes=tuple(range(20)), images=(30,) * 20), way=5, shot=1, targets=15)
    >>> len(sampler.draw(seed=0, index=3).target[0])
    15
    """

    split: Split
    way: int
    shot: int
    targets: int
    rotate: bool = False
    _classes: Integers = field(init=False, repr=False, compare=False)
    _images: Integers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("way", "shot", "targets"):
            if getattr(self, name) < 1:
                raise DataError(f"{name} must be at least 1, got {getattr(self, name)}; ask for one or more")
        if len(self.split.classes) < self.way:
            raise DataError(
                f"an episode of {self.way} ways needs as many classes, and the split has {len(self.split.classes)}; "
                "lower the way or choose another split"
            )
        _check_images(self.split, self.shot + self.targets, f"{self.shot} shots and {self.targets} targets")
        object.__setattr__(self, "_classes", np.array(self.split.classes, np.int64))
        object.__setattr__(self, "_images", np.array(self.split.images, np.int64))

    def draw(self, seed: int, index: int) -> Draw:
        """Episode `index` of `seed`."""
        stream = Stream(seed, index)
        chosen = stream.subset(len(self._classes), self.way)
        each = self.shot + self.targets
        images = stream.subsets(self._images[chosen].tolist(), [each] * self.way).reshape(self.way, each)
        rotations = stream.integers(4, self.way) if self.rotate else np.zeros(self.way, np.int64)
        context, target = tuple(images[:, : self.shot]), tuple(images[:, self.shot :])
        return Draw(0, self._classes[chosen], context, target, rotations)


@dataclass(frozen=True)
class VariableSampler:
    """Meta-Dataset's episodes: way, context size and shots vary, shots differ between classes.

    The caps are those of meta-training; meta-test uses `max_way=50, max_context=500`. A group with fewer
    classes than `min_way` is never drawn.

    Args:
        split: the classes to draw from; its kind decides how they are chosen.
        max_way: at most so many classes.
        max_context: at most so many context images.
        min_way: at least so many classes.
        max_targets: at most so many target images of each class.
        max_contribution: what a class adds to the context's size at most.
        log_weights: range of the random log weight of a class's share of the context.

    Raises:
        DataError: if the split has fewer classes than `min_way`, or a class fewer than two images.
    """

    split: Split
    max_way: int = 40
    max_context: int = 400
    min_way: int = 5
    max_targets: int = 10
    max_contribution: int = 100
    log_weights: tuple[float, float] = (-LN2, LN2)
    _classes: Integers = field(init=False, repr=False, compare=False)
    _images: Integers = field(init=False, repr=False, compare=False)
    _groups: tuple[Integers, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.min_way <= self.max_way <= self.max_context:
            raise DataError(
                f"min_way, max_way and max_context must rise from 1 on, got {self.min_way}, {self.max_way} and "
                f"{self.max_context}; correct them"
            )
        if min(self.max_targets, self.max_contribution) < 1:
            raise DataError(
                f"max_targets and max_contribution must be at least 1, got {self.max_targets} and "
                f"{self.max_contribution}; raise them"
            )
        if not -5 <= self.log_weights[0] <= self.log_weights[1] <= 5:
            raise DataError(f"log_weights must be a range between -5 and 5, got {self.log_weights}; correct it")
        _check_images(self.split, 2, "a context and a target image")
        object.__setattr__(self, "_classes", np.array(self.split.classes, np.int64))
        object.__setattr__(self, "_images", np.array(self.split.images, np.int64))
        object.__setattr__(self, "_groups", self._eligible())

    def _eligible(self) -> tuple[Integers, ...]:
        """The groups that a way can be drawn from, as positions in `classes`; a plain split is one group."""
        groups = self.split.groups if self.split.kind != "plain" else (range(len(self.split.classes)),)
        eligible = tuple(np.array(group, np.int64) for group in groups if len(group) >= self.min_way)
        if not eligible:
            raise DataError(
                f"an episode needs at least {self.min_way} classes, and the largest group of this {self.split.kind} "
                f"split has {max(map(len, groups), default=0)}; lower min_way, or draw tasks of a fixed way"
            )
        return eligible

    def draw(self, seed: int, index: int) -> Draw:
        """Episode `index` of `seed`."""
        stream = Stream(seed, index)
        chosen = self._choose(stream)
        images = self._images[chosen]
        targets = min(self.max_targets, int(images.min()) // 2)
        shots = self._shots(stream, images, targets)
        chunks = _chunks(stream.subsets(images.tolist(), [shot + targets for shot in shots]), shots, targets)
        context, target = zip(*chunks, strict=True)
        return Draw(0, self._classes[chosen], context, target, np.zeros(len(chosen), np.int64))

    def _choose(self, stream: Stream) -> Integers:
        """Positions of the episode's classes, in random order: `(way,)`."""
        group = self._groups[stream.integer(len(self._groups))]
        way = min(self.max_way, len(group))
        if self.split.kind != "dag":
            way = self.min_way + stream.integer(way - self.min_way + 1)
        return group[stream.subset(len(group), way)]

    def _shots(self, stream: Stream, images: Integers, targets: int) -> list[int]:
        """Number of context images of each class; at most `max_context` together."""
        beta = stream.uniforms(1)
        left = images - targets
        size = min(self.max_context, int(np.floor(beta * np.minimum(self.max_contribution, left) + 1).sum()))
        low, high = self.log_weights
        weights = images * exp(low + (high - low) * stream.uniforms(len(images)))
        share = weights / math.fsum(weights.tolist())  # fsum: the same bits in any order of addition
        shots = np.floor(share * (size - len(images))) + 1
        return [int(shot) for shot in np.minimum(shots, left).tolist()]


@dataclass(frozen=True)
class Mixture:
    """Draws one of the samplers uniformly for each episode.

    Raises:
        DataError: if it is empty, or holds another mixture.
    """

    samplers: Sequence[Sampler]

    def __post_init__(self) -> None:
        if not self.samplers:
            raise DataError("a mixture needs at least one sampler, got none; pass one per source")
        if any(isinstance(sampler, Mixture) for sampler in self.samplers):
            raise DataError("a mixture cannot hold another mixture; pass the samplers of both in one list")

    def draw(self, seed: int, index: int) -> Draw:
        """Episode `index` of `seed`, its `source` a position in `samplers`."""
        source = Stream(seed, index, MIXTURE).integer(len(self.samplers))
        draw = self.samplers[source].draw(seed, index)
        return Draw(source, draw.classes, draw.context, draw.target, draw.rotations)


def _chunks(images: Integers, shots: list[int], targets: int) -> Iterator[tuple[Integers, Integers]]:
    """Context and target images of each class, from all classes' images laid end to end."""
    start = 0
    for shot in shots:
        middle, end = start + shot, start + shot + targets
        yield images[start:middle], images[middle:end]
        start = end


def _check_images(split: Split, needed: int, what: str) -> None:
    for class_id, images in zip(split.classes, split.images, strict=True):
        if images < needed:
            raise DataError(
                f"an episode needs {needed} images of a class ({what}), and class {class_id} has {images}; ask for "
                "fewer, or leave that class out"
            )
