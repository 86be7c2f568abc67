"""Splits and specs that contradict themselves are refused."""

import pytest

from tasknorm.data.spec import Spec, Split
from tasknorm.errors import DataError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": (0, 1), "images": (20,)}, "1 numbers for 2 classes"),
        ({"classes": (0, 0), "images": (20, 20)}, "each class once, got 0 twice"),
        ({"classes": (0,), "images": (-1,)}, "got -1 \\(class 0\\)"),
        ({"classes": (0,), "images": (1,), "groups": ((0,),)}, "plain split cannot have groups"),
        ({"classes": (7,), "images": (1,), "groups": ((7,),), "kind": "dag"}, "not class ids"),
        ({"classes": (0,), "images": (1,), "groups": ((0,), (0,)), "kind": "bilevel"}, "one alphabet"),
        ({"classes": (0,), "images": (1,), "groups": ((0, 0),), "kind": "dag"}, "each class once"),
        ({"classes": (0,), "images": (1,), "kind": "tree"}, "got 'tree'"),
        ({"classes": (0,), "images": (1,), "kind": "dag", "group_names": ("a",)}, "1 names for 0 groups"),
    ],
)
def test_split_that_contradicts_itself(arguments, message):
    with pytest.raises(DataError, match=message):
        Split(**arguments)


def test_groups_of_a_dag_overlap():
    assert Split((0, 1, 2), (5, 5, 5), ((0, 1), (1, 2)), "dag").groups == ((0, 1), (1, 2))


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": Split((0, 2), (5, 5))}, "got 2 in split train"),
        ({"training": Split((0,), (5,))}, "got 'training'"),
        ({"train": Split((0,), (5,)), "test": Split((0,), (5,))}, "one split, got 0 twice"),
    ],
)
def test_spec_that_contradicts_itself(splits, message):
    with pytest.raises(DataError, match=message):
        Spec("letters", ("a", "b"), splits)
