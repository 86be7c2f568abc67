"""Checkpoints: whole or absent, checked, and only for whom they were written."""

from __future__ import annotations

import pytest
import torch

from tasknorm.errors import WeightsError
from tasknorm.training.checkpoint import Checkpoint, last_iteration, newest_checkpoint, write_checkpoint
from tasknorm.training.weights_file import label, read_weights, write_weights

ABOUT = label("maml", "CBN")


def written(folder, *iterations):
    for iteration in iterations:
        weights = {"w": torch.full((3,), float(iteration))}
        write_checkpoint(folder, Checkpoint(iteration, weights, {"best": {"CBN": 0.5}, "at": iteration}), ABOUT)


def test_the_newest_comes_back_and_two_are_kept(tmp_path):
    written(tmp_path, 1, 2, 10)
    found = newest_checkpoint(tmp_path, ABOUT, pytest.fail)
    assert (found.iteration, found.state, found.weights["w"].tolist()) == (
        10,
        {"best": {"CBN": 0.5}, "at": 10},
        [10] * 3,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000002", "00000010"]


def test_none_at_first(tmp_path):
    assert newest_checkpoint(tmp_path / "checkpoints", ABOUT, pytest.fail) is None


@pytest.mark.parametrize("name", ["weights.safetensors", "state.pt", "index.json"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_a_damaged_one_falls_back_and_says_so(tmp_path, name, how):
    written(tmp_path, 1, 2)
    path = tmp_path / "00000002" / name
    content = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
    elif how == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    said = []
    assert newest_checkpoint(tmp_path, ABOUT, said.append).iteration == 1
    assert len(said) == 1
    assert said[0].startswith(f"damaged: {tmp_path / '00000002'} (")
    assert said[0].endswith(f"continuing from the checkpoint before, {tmp_path / '00000001'}")
    written(tmp_path, 2)
    assert newest_checkpoint(tmp_path, ABOUT, pytest.fail).iteration == 2


def test_if_all_are_damaged_it_names_them_and_says_how_to_begin_again(tmp_path):
    written(tmp_path, 1, 2)
    (tmp_path / "00000001" / "index.json").write_text("[]")
    (tmp_path / "00000002" / "state.pt").unlink()
    with pytest.raises(WeightsError) as refused:
        newest_checkpoint(tmp_path, ABOUT, pytest.fail)
    assert str(refused.value).startswith(f"all checkpoints are damaged: {tmp_path / '00000002'} (")
    assert str(tmp_path / "00000001") in str(refused.value)
    assert f"start again from the beginning: remove {tmp_path}, or choose another folder" in str(refused.value)


def test_other_names_are_no_checkpoints(tmp_path):
    written(tmp_path, 1)
    (tmp_path / "²").mkdir()
    assert newest_checkpoint(tmp_path, ABOUT, pytest.fail).iteration == last_iteration(tmp_path) == 1


@pytest.mark.parametrize(("key", "other"), [("learner", "protonets"), ("norm", "LN"), ("format", "0")])
def test_one_of_another_learner_norm_or_version_is_refused(tmp_path, key, other):
    written(tmp_path, 1)
    write_weights(tmp_path / "w.safetensors", {"w": torch.ones(1)}, ABOUT)
    with pytest.raises(WeightsError, match=f"its {key} must be {other}"):
        newest_checkpoint(tmp_path, ABOUT | {key: other}, pytest.fail)
    with pytest.raises(WeightsError, match=f"its {key} must be {other}"):
        read_weights(tmp_path / "w.safetensors", ABOUT | {key: other})


def test_an_error_while_writing_leaves_the_one_before(tmp_path):
    written(tmp_path, 1)
    with pytest.raises(TypeError):
        write_checkpoint(tmp_path, Checkpoint(2, {"w": torch.ones(1)}, {}), ABOUT | {"bad": object()})
    assert newest_checkpoint(tmp_path, ABOUT, pytest.fail).iteration == 1


def test_damaged_weights_are_an_error(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(WeightsError, match="damaged"):
        read_weights(tmp_path / "w.safetensors", ABOUT)
