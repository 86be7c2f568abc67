"""What a source holds, without its images: enough to draw episodes from.

The three kinds are Meta-Dataset's (Triantafillou et al., 2020): plain classes, classes in two levels
(Omniglot's alphabets and characters) and the leaves of a directed acyclic graph (ImageNet in WordNet).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tasknorm.errors import DataError, short

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Split:
    """The classes of one split.

    Args:
        classes: class ids, positions in `Spec.class_names`.
        images: how many images each of these classes has.
        groups: positions in `classes`: the alphabets (bilevel), or the leaves that each eligible internal
            node spans (dag); groups of a dag overlap.
        kind: how variable episodes choose their classes.
        group_names: the alphabets' or nodes' names, if they are known.

    Raises:
        DataError: if these contradict each other.

    >>> Split(classes=(0, 1, 2), images=(20, 20, 20), groups=((0, 1), (2,)), kind="bilevel").groups[0]
    (0, 1)
    """

    classes: tuple[int, ...]
    images: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    kind: Literal["plain", "bilevel", "dag"] = "plain"
    group_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.classes) != len(self.images):
            raise DataError(
                f"a split needs one number of images per class, got {len(self.images)} numbers for {len(self.classes)} "
                "classes; pass one number per class"
            )
        _check_unique(self.classes, "a split may list each class once", "remove the repeated class id")
        for class_id, images in zip(self.classes, self.images, strict=True):
            if images < 0:
                raise DataError(
                    f"the number of images must be 0 or more, got {images} (class {class_id}); count its images"
                )
        self._check_groups()

    def _check_groups(self) -> None:
        if self.kind not in ("plain", "bilevel", "dag"):
            raise DataError(f"the kind of a split must be plain, bilevel or dag, got {self.kind!r}; choose one of them")
        if self.kind == "plain" and self.groups:
            raise DataError(
                f"a plain split cannot have groups, got {len(self.groups)}; leave them out, or pass kind='bilevel' or "
                "kind='dag'"
            )
        if self.group_names and len(self.group_names) != len(self.groups):
            raise DataError(
                f"a split needs one name per group, got {len(self.group_names)} names for {len(self.groups)} groups; "
                "pass one name per group, or none"
            )
        positions = [position for group in self.groups for position in group]
        if positions and not 0 <= min(positions) <= max(positions) < len(self.classes):
            raise DataError(
                f"groups must hold positions from 0 to {len(self.classes) - 1}, got {min(positions)} to "
                f"{max(positions)}; pass positions in `classes`, not class ids"
            )
        if self.kind == "bilevel":
            _check_unique(positions, "a class may belong to one alphabet", "remove it from the other group")
        for group in self.groups:
            _check_unique(group, "a group may list each class once", "remove the repeated position")


@dataclass(frozen=True)
class Spec:
    """A source's classes and splits.

    Args:
        name: the source's name.
        class_names: name of each class id.
        splits: `"train"`, `"valid"` and `"test"`; one that is missing is empty. No class is in two of them.

    Raises:
        DataError: if a split names an unknown class, or two splits share one.
    """

    name: str
    class_names: tuple[str, ...]
    splits: Mapping[str, Split]

    def __post_init__(self) -> None:
        for name, split in self.splits.items():
            if name not in SPLITS:
                raise DataError(f"{self._name}: a split must be {', '.join(SPLITS)}, got {name!r}; rename it")
            unknown = [class_id for class_id in split.classes if not 0 <= class_id < len(self.class_names)]
            if unknown:
                raise DataError(
                    f"{self._name}: a class id must be below {len(self.class_names)}, the number of class_names, got "
                    f"{unknown[0]} in split {name}; name that class or remove it"
                )
        every = [class_id for split in self.splits.values() for class_id in split.classes]
        _check_unique(every, f"{self._name}: a class may belong to one split", "remove it from the other splits")

    @property
    def _name(self) -> str:
        return short(self.name)[1:-1]


def renumbered(spec: Spec) -> Spec:
    """The same spec with contiguous class ids: train, valid, test, and alphabet by alphabet within these.

    >>> fish = Spec("fish", ("eel", "carp"), {"test": Split((0,), (9,)), "train": Split((1,), (5,))})
    >>> renumbered(fish).class_names
    ('carp', 'eel')
    """
    names: list[str] = []
    splits = {}
    for name in SPLITS:
        split = spec.splits.get(name, Split((), ()))
        order = sorted(range(len(split.classes)), key=_alphabet_order(split).__getitem__)
        position = {old: new for new, old in enumerate(order)}
        splits[name] = Split(
            classes=tuple(range(len(names), len(names) + len(order))),
            images=tuple(split.images[old] for old in order),
            groups=tuple(tuple(sorted(position[old] for old in group)) for group in split.groups),
            kind=split.kind,
            group_names=split.group_names,
        )
        names += [spec.class_names[split.classes[old]] for old in order]
    return Spec(spec.name, tuple(names), splits)


def _alphabet_order(split: Split) -> list[int]:
    """For each class the number of its alphabet, if classes belong to one."""
    result = [0] * len(split.classes)
    for number, group in enumerate(split.groups if split.kind == "bilevel" else ()):
        for position in group:
            result[position] = number
    return result


def _check_unique(values: Iterable[int], rule: str, fix: str) -> None:
    seen: set[int] = set()
    for value in values:
        if value in seen:
            raise DataError(f"{rule}, got {value} twice; {fix}")
        seen.add(value)
