"""Meta-Dataset's `dataset_spec.json`: all three kinds are read, plain and bilevel ones written.

Source: google-research/meta-dataset, `dataset_spec.py` (Triantafillou et al., 2020). Class ids are
contiguous, train first, then valid, then test; the files of a source are `<class id>.tfrecords`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from tasknorm.data.formats.graph import dag_split
from tasknorm.data.spec import SPLITS, Spec, Split
from tasknorm.errors import DataError
from tasknorm.files import write_atomically

FILE_NAME = "dataset_spec.json"
FILE_PATTERN = "{}.tfrecords"


def read_spec(path: Path | str) -> Spec:
    """Read a `dataset_spec.json`, or the one in a folder of records.

    Raises:
        DataError: if it cannot be read, is of another kind, or contradicts itself.
    """
    path = Path(path)
    path = path / FILE_NAME if path.is_dir() else path
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read as JSON ({error}); pass Meta-Dataset's own {FILE_NAME}") from error
    kind = content.get("__class__") if isinstance(content, dict) else None
    if kind not in _KINDS:
        raise DataError(f"{path}: __class__ is one of {', '.join(_KINDS)}, got {kind!r}; convert the file")
    if content.get("file_pattern", FILE_PATTERN) != FILE_PATTERN:
        raise DataError(
            f"{path}: file_pattern is {FILE_PATTERN!r}, got {content['file_pattern']!r}; "
            "write one file per class (shards are not read)"
        )
    try:
        return _KINDS[kind](content)
    except KeyError as error:
        raise DataError(f"{path}: an entry {error} is missing; complete the file") from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: an entry has the wrong type ({error}); correct the file") from error


def _class_names(content: dict[str, Any]) -> tuple[str, ...]:
    names = content["class_names"]
    return tuple(str(names[str(class_id)]) for class_id in range(len(names)))


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise DataError(f"a number of classes or images is a whole number from 0 up, got {value!r}; correct it")
    return value


def _ranges(counts: list[int]) -> list[range]:
    """Contiguous ids: the first counts[0] of them, the next counts[1] of them, ..."""
    return [range(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]


def _per_split(counts: dict[str, Any]) -> dict[str, range]:
    return dict(zip(SPLITS, _ranges([_count(counts[split.upper()]) for split in SPLITS]), strict=True))


def _check_total(found: int, names: tuple[str, ...], where: str) -> None:
    if found != len(names):
        raise DataError(f"{where} and class_names name the same classes, got {found} and {len(names)}; correct one")


def _plain(content: dict[str, Any]) -> Spec:
    names, images = _class_names(content), content["images_per_class"]
    ids = _per_split(content["classes_per_split"])
    _check_total(ids["test"].stop, names, "classes_per_split")
    _check_total(len(images), names, "images_per_class")
    splits = {split: Split(tuple(r), tuple(_count(images[str(i)]) for i in r)) for split, r in ids.items()}
    return Spec(str(content["name"]), names, splits)


def _bilevel(content: dict[str, Any]) -> Spec:
    names, images = _class_names(content), content["images_per_class"]
    sizes, group_names = content["classes_per_superclass"], content["superclass_names"]
    supers = _per_split(content["superclasses_per_split"])
    groups = _ranges([_count(sizes[str(i)]) for i in range(supers["test"].stop)])
    _check_total(groups[-1].stop if groups else 0, names, "classes_per_superclass")
    _check_total(len(images), names, "images_per_class")
    splits = {}
    for split, ids in supers.items():
        members = [groups[i] for i in ids]
        classes = tuple(class_id for group in members for class_id in group)
        positions = tuple(tuple(r) for r in _ranges([len(group) for group in members]))
        counts = tuple(_count(images[str(i)]) for i in classes)
        splits[split] = Split(classes, counts, positions, "bilevel", tuple(str(group_names[str(i)]) for i in ids))
    return Spec(str(content["name"]), names, splits)


def _hierarchical(content: dict[str, Any]) -> Spec:
    names = _class_names(content)
    ids = {name: class_id for class_id, name in enumerate(names)}
    splits = {
        split: dag_split(content["split_subgraphs"][split.upper()], content["images_per_class"][split.upper()], ids)
        for split in SPLITS
    }
    _check_total(sum(len(split.classes) for split in splits.values()), names, "split_subgraphs")
    return Spec(str(content["name"]), names, splits)


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
            f"{path}: a spec is written with splits that are all plain or all bilevel, got {sorted(kinds)}; "
            "leave the groups out"
        )
    if [i for split in splits for i in split.classes] != list(range(len(spec.class_names))):
        raise DataError(
            f"{path}: class ids are contiguous and in order (train, valid, test), those of {spec.name} "
            "are not; number the classes anew"
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
            raise DataError(f"{path}: alphabets hold all classes in order, got gaps; number the classes anew")
    groups = [group for split in splits for group in split.groups]
    names = [name for split in splits for name in split.group_names]
    counts = {name.upper(): len(split.groups) for name, split in zip(SPLITS, splits, strict=True)}
    return {
        "superclasses_per_split": counts,
        "classes_per_superclass": _numbered([len(group) for group in groups]),
        "superclass_names": _numbered(names if len(names) == len(groups) else range(len(groups))),
        "__class__": "BiLevelDatasetSpecification",
    }
