"""Meta-Dataset's `dataset_spec.json`: all three kinds are read, plain and bilevel ones written.

Source: google-research/meta-dataset, `dataset_spec.py` (Triantafillou et al., 2020). Class ids are
contiguous, train first, then valid, then test; the files of a source are `<class id>.tfrecords`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from tasknorm.data.formats.graph import dag_split
from tasknorm.data.spec import SPLITS, Spec, Split
from tasknorm.errors import DataError, at, short
from tasknorm.files import write_atomically
from tasknorm.machine import read_json

FILE_NAME = "dataset_spec.json"
FILE_PATTERN = "{}.tfrecords"
MOST = 1 << 40  # images of a class


def read_spec(path: Path | str) -> Spec:
    """Read a `dataset_spec.json`, or the one in a folder of records.

    Raises:
        DataError: if it cannot be read, is of another kind, or contradicts itself; names the entry.
    """
    path = Path(path)
    path = path / FILE_NAME if path.is_dir() else path
    content = read_json(path, DataError, f"pass Meta-Dataset's own {FILE_NAME}")
    kind = content.get("__class__") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise DataError(
            f"{at(path, '__class__')}: the kind of spec must be {', '.join(_KINDS)}, got {short(kind)}; convert it"
        )
    if content.get("file_pattern", FILE_PATTERN) != FILE_PATTERN:
        raise DataError(
            f"{at(path, 'file_pattern')}: the pattern must be {FILE_PATTERN!r}, got "
            f"{short(content['file_pattern'])}; write one file per class (shards are not read)"
        )
    try:
        return _KINDS[kind](content)
    except DataError as error:
        raise DataError(f"{at(path)}, {error}") from error


def _entry(table: Mapping[str, Any], key: str, place: str = "") -> Any:
    if key not in table:
        raise DataError(f"{place or 'top level'}: there is no entry {short(key)}; add it")
    return table[key]


def _table(content: Mapping[str, Any], name: str, place: str = "") -> dict[str, Any]:
    value = _entry(content, name, place)
    if not isinstance(value, dict):
        raise DataError(f"{place}{name}: the entry must be an object of entries, got {short(value)}; correct it")
    return value


def _text(table: Mapping[str, Any], key: str, place: str = "") -> str:
    value = _entry(table, key, place)
    if not isinstance(value, str):
        raise DataError(f"{place}[{short(key)}]: a name must be a text, got {short(value)}; correct it")
    return value


def _class_names(content: dict[str, Any]) -> tuple[str, ...]:
    names = _table(content, "class_names")
    return tuple(_text(names, str(class_id), "class_names") for class_id in range(len(names)))


def _count(table: Mapping[str, Any], key: str, place: str) -> int:
    value = _entry(table, key, place)
    if type(value) is not int or not 0 <= value < MOST:
        raise DataError(
            f"{place}[{short(key)}]: a number of classes or images must be a whole number from 0 up, got "
            f"{short(value)}; correct it"
        )
    return value


def _ranges(counts: list[int]) -> list[range]:
    """Contiguous ids: ranges of these lengths, one after the other, from 0.

    >>> _ranges([2, 3])
    [range(0, 2), range(2, 5)]
    """
    return [range(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]


def _per_split(content: dict[str, Any], name: str) -> dict[str, range]:
    counts = _table(content, name)
    return dict(zip(SPLITS, _ranges([_count(counts, split.upper(), name) for split in SPLITS]), strict=True))


def _check_total(found: int, names: tuple[str, ...], where: str) -> None:
    if found != len(names):
        raise DataError(f"{where}: it speaks of {found} classes, and class_names of {len(names)}; correct one of them")


def _plain(content: dict[str, Any]) -> Spec:
    names, images = _class_names(content), _table(content, "images_per_class")
    ids = _per_split(content, "classes_per_split")
    _check_total(ids["test"].stop, names, "classes_per_split")
    _check_total(len(images), names, "images_per_class")
    counts = [_count(images, str(i), "images_per_class") for i in range(len(names))]
    splits = {split: Split(tuple(r), tuple(counts[r.start : r.stop])) for split, r in ids.items()}
    return Spec(_text(content, "name"), names, splits)


def _bilevel(content: dict[str, Any]) -> Spec:
    names, images = _class_names(content), _table(content, "images_per_class")
    sizes, group_names = _table(content, "classes_per_superclass"), _table(content, "superclass_names")
    supers = _per_split(content, "superclasses_per_split")
    members_of = [_count(sizes, str(i), "classes_per_superclass") for i in range(supers["test"].stop)]
    groups = _ranges(members_of)
    _check_total(groups[-1].stop if groups else 0, names, "classes_per_superclass")
    _check_total(len(images), names, "images_per_class")
    splits = {}
    for split, ids in supers.items():
        members = [groups[i] for i in ids]
        classes = tuple(class_id for group in members for class_id in group)
        positions = tuple(tuple(r) for r in _ranges([len(group) for group in members]))
        counts = tuple(_count(images, str(i), "images_per_class") for i in classes)
        named = tuple(_text(group_names, str(i), "superclass_names") for i in ids)
        splits[split] = Split(classes, counts, positions, "bilevel", named)
    return Spec(_text(content, "name"), names, splits)


def _hierarchical(content: dict[str, Any]) -> Spec:
    names = _class_names(content)
    ids = {name: class_id for class_id, name in enumerate(names)}
    graphs, images = _table(content, "split_subgraphs"), _table(content, "images_per_class")
    splits = {}
    for split in SPLITS:
        nodes = _entry(graphs, split.upper(), "split_subgraphs")
        try:
            splits[split] = dag_split(nodes, _table(images, split.upper(), "images_per_class"), ids)
        except DataError as error:
            raise DataError(f"split_subgraphs[{split.upper()!r}]: {error}") from error
    _check_total(sum(len(split.classes) for split in splits.values()), names, "split_subgraphs")
    return Spec(_text(content, "name"), names, splits)


_KINDS: dict[str, Callable[[dict[str, Any]], Spec]] = {
    "DatasetSpecification": _plain,
    "BiLevelDatasetSpecification": _bilevel,
    "HierarchicalDatasetSpecification": _hierarchical,
}


def write_spec(spec: Spec, path: Path | str) -> None:
    """Write a `dataset_spec.json` that Meta-Dataset reads; a folder gets one of that name. Atomic.

    Raises:
        DataError: if class ids are not contiguous (train, valid, test), or a split is a dag.
    """
    path = Path(path)
    path = path / FILE_NAME if path.is_dir() else path
    splits = [spec.splits.get(split, Split((), ())) for split in SPLITS]
    kinds = {split.kind for split in splits if split.classes}
    if kinds not in (set(), {"plain"}, {"bilevel"}):
        raise DataError(
            f"{at(path)}: the splits must be all plain or all bilevel to be written, got {sorted(kinds)}; "
            "leave the groups out"
        )
    if [i for split in splits for i in split.classes] != list(range(len(spec.class_names))):
        raise DataError(
            f"{at(path)}: the class ids of {short(spec.name)} are not contiguous in the order train, valid, test; "
            "number the classes anew"
        )
    content = _bilevel_content(path, splits) if kinds == {"bilevel"} else _plain_content(splits)
    common = {
        "name": spec.name,
        "images_per_class": _numbered([n for split in splits for n in split.images]),
        "class_names": _numbered(spec.class_names),
        "path": "",
        "file_pattern": FILE_PATTERN,
    }
    write_atomically(path, json.dumps(common | content, indent=2).encode())


def _numbered(values: Sequence[Any]) -> dict[str, Any]:
    return {str(i): value for i, value in enumerate(values)}


def _plain_content(splits: list[Split]) -> dict[str, Any]:
    counts = {name.upper(): len(split.classes) for name, split in zip(SPLITS, splits, strict=True)}
    return {"classes_per_split": counts, "__class__": "DatasetSpecification"}


def _bilevel_content(path: Path, splits: list[Split]) -> dict[str, Any]:
    for split in splits:
        if [position for group in split.groups for position in group] != list(range(len(split.classes))):
            raise DataError(f"{at(path)}: the alphabets do not hold all classes in order; number the classes anew")
    groups = [group for split in splits for group in split.groups]
    names = [name for split in splits for name in split.group_names]
    counts = {name.upper(): len(split.groups) for name, split in zip(SPLITS, splits, strict=True)}
    return {
        "superclasses_per_split": counts,
        "classes_per_superclass": _numbered([len(group) for group in groups]),
        "superclass_names": _numbered(names if len(names) == len(groups) else range(len(groups))),
        "__class__": "BiLevelDatasetSpecification",
    }
