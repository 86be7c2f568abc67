"""Cross-validation over classes, for a source with few of them: each fold is tested once, the others train."""

from __future__ import annotations

from tasknorm.data.sources.source import images_by_class, shuffled
from tasknorm.data.spec import Spec, Split
from tasknorm.errors import DataError, one_line


def folded(spec: Spec, fold: str | None) -> Spec:
    """The source with other splits: one fold of its classes for tests, all others for training, none for validation.

    Which class is in which fold depends on the names of all classes alone. Class ids stay as they are.

    Args:
        spec: the source's classes; those that are in no split stay out.
        fold: which fold of how many, such as "2/3"; the source as it is if None.

    Raises:
        DataError: if there are fewer classes than folds, or the fold's number is too large.

    >>> from tasknorm.data import plain_spec
    >>> pets = plain_spec("pets", {"train": {"cat": 30, "dog": 40, "eel": 9}, "test": {"fox": 20}})
    >>> [len(folded(pets, fold).splits["test"].classes) for fold in ("1/3", "2/3", "3/3")]
    [2, 1, 1]
    """
    if fold is None:
        return spec
    number, folds = map(int, fold.split("/"))
    images = images_by_class(spec)
    names = {spec.class_names[class_id]: class_id for class_id, count in enumerate(images) if count}
    if not 2 <= folds <= len(names) or number > folds:
        raise DataError(
            f"{one_line(spec.name)}: fold must be NUMBER/FOLDS with 2 to {len(names)} folds, as many as the source has "
            f"classes at most, got {fold}; correct it"
        )
    order = [names[name] for name in shuffled(list(names))]
    tested = set(order[number - 1 :: folds])
    parts = {"train": sorted(set(order) - tested), "valid": [], "test": sorted(tested)}
    return Spec(
        spec.name,
        spec.class_names,
        {split: Split(tuple(ids), tuple(images[class_id] for class_id in ids)) for split, ids in parts.items()},
    )
