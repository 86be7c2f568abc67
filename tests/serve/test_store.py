"""Predictors in a folder: there after a restart, whole or absent, and nothing outside of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tasknorm.errors import WeightsError
from tasknorm.learners import Predictor
from tasknorm.serve import Limits
from tasknorm.serve.refusals import RefusedError
from tasknorm.serve.store import IDS, Store

Predictors = Callable[..., Predictor]


def refused(status: int, function: Callable[[], object]) -> None:
    with pytest.raises(RefusedError) as caught:
        function()
    assert caught.value.status == status


def test_predictors_are_kept_replaced_and_deleted(predictor_of: Predictors, tmp_path: Path) -> None:
    store = Store(tmp_path, Limits())
    one, other = store.add(predictor_of()), store.add(predictor_of("TBN"))
    assert IDS.fullmatch(one.id)
    assert (one.transductive, other.transductive) == (False, True)
    assert store.entry(one.id) is one
    again = Store(tmp_path, Limits())
    assert set(again.ids()) == {one.id, other.id}
    assert again.remembered(one.id) is None
    assert again.entry(one.id).predictor.names == one.predictor.names
    more = again.replace(one.id, other.predictor)
    assert again.entry(one.id) is more
    assert len(again) == 2
    again.remove(one.id)
    refused(404, lambda: again.entry(one.id))
    refused(404, lambda: again.remove(one.id))
    assert [path.stem for path in tmp_path.iterdir()] == [other.id]


def test_the_least_recently_used_leave_memory(predictor_of: Predictors, tmp_path: Path) -> None:
    store = Store(tmp_path, Limits(in_memory=2))
    first, second, third = (store.add(predictor_of()) for _ in range(3))
    assert store.in_memory == 2
    assert store.remembered(first.id) is None
    assert store.remembered(second.id) is second
    store.entry(first.id)  # third was used less recently than second
    assert store.remembered(third.id) is None
    assert store.remembered(second.id) is second


def test_the_number_of_predictors_is_bounded(predictor_of: Predictors, tmp_path: Path) -> None:
    store = Store(tmp_path, Limits(predictors=1))
    entry = store.add(predictor_of())
    refused(429, lambda: store.add(predictor_of()))
    store.replace(entry.id, predictor_of())
    store.remove(entry.id)
    store.add(predictor_of())


@pytest.mark.parametrize("id", ["", "..", "../../etc/passwd", "a" * 22, "a/b", "\0", "é" * 22, "A" * 23])
def test_ids_reach_no_other_file(tmp_path: Path, id: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "secret.safetensors").touch()
    store = Store(tmp_path / "folder", Limits())
    for function in (store.entry, store.remove, store.loaded, store.remembered):
        refused(404, lambda function=function: function(id))


def test_other_files_are_left_alone_and_damaged_ones_named(predictor_of: Predictors, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "birds.safetensors").touch()
    id = Store(tmp_path, Limits()).add(predictor_of()).id
    file = tmp_path / f"{id}.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    store = Store(tmp_path, Limits())
    assert store.ids() == [id]
    with pytest.raises(WeightsError, match=r"not a predictor"):
        store.entry(id)
    file.unlink()  # by somebody else
    refused(404, lambda: store.entry(id))
    assert len(store) == 0


def test_a_predictor_that_cannot_be_written_is_refused_and_the_old_one_stays(
    predictor_of: Predictors, tmp_path: Path
) -> None:
    store = Store(tmp_path / "p", Limits())
    entry = store.add(predictor_of())
    (tmp_path / "p").rename(tmp_path / "gone")
    (tmp_path / "p").touch()
    refused(507, lambda: store.replace(entry.id, predictor_of()))
    refused(507, lambda: store.add(predictor_of()))
    assert store.entry(entry.id) is entry
    assert len(store) == 1
