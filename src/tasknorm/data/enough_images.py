"""Classes with enough images for the tasks asked for; the others are refused by name, or left out."""

from __future__ import annotations

from dataclasses import replace

from tasknorm.data.sources.source import chosen_split
from tasknorm.data.spec import Spec, Split
from tasknorm.errors import DataError, one_line, short


def large_enough(split: Split, images: int) -> Split:
    """The split without the classes that have fewer than `images` images; groups lose these classes too.

    >>> large_enough(Split((4, 5, 6), (9, 1, 9), groups=((0, 1), (2,)), kind="bilevel"), 2).groups
    ((0,), (1,))
    """
    kept = [position for position, count in enumerate(split.images) if count >= images]
    new = {old: position for position, old in enumerate(kept)}
    return replace(
        split,
        classes=tuple(split.classes[old] for old in kept),
        images=tuple(split.images[old] for old in kept),
        groups=tuple(tuple(new[old] for old in group if old in new) for group in split.groups),
    )


def small_classes(spec: Spec, split: str, shot: int, targets: int) -> dict[int, str]:
    """Class ids of a split with too few images for a task, each with a sentence that names it."""
    part, needed = chosen_split(spec, split), shot + targets
    return {
        class_id: f"{one_line(spec.name)}: class {short(spec.class_names[class_id])} of the {split} split has "
        f"{some(count, 'image')}, and a task needs {needed} ({some(shot, 'shot')} and {some(targets, 'target')})"
        for class_id, count in zip(part.classes, part.images, strict=True)
        if count < needed
    }


def some(number: int, noun: str) -> str:
    """A number and its noun, in the plural if need be.

    >>> some(1, "image"), some(0, "class")
    ('1 image', '0 classes')
    """
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


def task_classes(spec: Spec, split: str, shot: int, targets: int, *, skip_small: bool = False) -> Split:
    """A split to draw tasks from.

    Args:
        spec: the source's classes and splits.
        split: train, valid or test.
        shot, targets: how many context and target images a task needs of each class.
        skip_small: leave out classes with fewer images, rather than refuse them.

    Raises:
        DataError: if a class has fewer, or the split is empty; names the class.
    """
    part, small = chosen_split(spec, split), list(small_classes(spec, split, shot, targets).values())
    if small and len(small) == len(part.classes):
        raise DataError(f"{small[0]}; add images or ask for smaller tasks, since no class of the split has enough")
    if small and not skip_small:
        others = f" ({len(small) - 1} more have too few)" if len(small) > 1 else ""
        raise DataError(f"{small[0]}{others}; add images, ask for smaller tasks, or leave such classes out: --skip-bad")
    return large_enough(part, shot + targets)
