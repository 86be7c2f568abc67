"""Cross-validation over classes: every class is tested once, and never trained where it is tested."""

from __future__ import annotations

import pytest

from tasknorm.data import folded, plain_spec
from tasknorm.errors import DataError

SPEC = plain_spec("pets", {"train": {f"pet{n}": 10 + n for n in range(9)}, "test": {"fox": 3, "owl": 4}})


@pytest.mark.parametrize("folds", [2, 3, 5, 11])
def test_folds_share_all_classes(folds: int) -> None:
    made = [folded(SPEC, f"{number + 1}/{folds}") for number in range(folds)]
    tested = [spec.splits["test"].classes for spec in made]
    assert sorted(class_id for classes in tested for class_id in classes) == list(range(11))
    assert max(map(len, tested)) - min(map(len, tested)) <= 1
    for spec in made:
        assert sorted(spec.splits["train"].classes + spec.splits["test"].classes) == list(range(11))
        assert not spec.splits["valid"].classes
        assert spec.class_names == SPEC.class_names
        for split in spec.splits.values():
            assert split.images == tuple(
                3 + class_id - 9 if class_id > 8 else 10 + class_id for class_id in split.classes
            )


def test_no_fold_is_the_source_itself() -> None:
    assert folded(SPEC, None) is SPEC


@pytest.mark.parametrize("fold", ["1/1", "1/12", "4/3"])
def test_folds_that_cannot_be_are_refused(fold: str) -> None:
    with pytest.raises(DataError, match=f"fold must be NUMBER/FOLDS with 2 to 11 folds.*got {fold}"):
        folded(SPEC, fold)
