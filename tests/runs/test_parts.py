"""Runs on several sources: a mixture in training, each source by itself in validation and test."""

from __future__ import annotations

import json

import pytest
import torch

from support.data_files import write_pets
from support.runs import run, tiny
from tasknorm.data import opened
from tasknorm.errors import DataError, SettingsError
from tasknorm.norms import Norm
from tasknorm.runs import Adapter
from tasknorm.runs.calibration import read_calibration
from tasknorm.runs.parts import as_norm, learner_of, sampler_of, task_of, validated_sources
from tasknorm.runs.record import read_record
from tasknorm.training import RunFolder
from tasknorm.training.best_weights import is_better

pytestmark = pytest.mark.usefixtures("glyph_cache")

SMALL = {
    "net": "resnet-small",
    "filters": None,
    "image_size": 28,
    "max_way": 6,
    "max_context": 12,
    "test_max_way": 6,
    "test_max_context": 12,
    "iterations": 2,
    "validate_every": 1,
    "validation_tasks": 2,
    "test_tasks": 2,
}


def mixed(pets, **changes):
    """Settings of a run on grey glyphs and colour pets."""
    return tiny(**{"source": ["glyphs", f"folder:{pets}"], "sampling": "variable"} | SMALL | changes)


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images") / "pets"
    write_pets(folder)
    return folder


@pytest.fixture(scope="module")
def only_test(tmp_path_factory):
    """A source all of whose classes are for testing."""
    return with_splits(tmp_path_factory.mktemp("images") / "strangers", "test")


def with_splits(folder, split):
    """Images of six classes, all in one split."""
    write_pets(folder, classes=6)
    names = [path.name for path in folder.iterdir()]
    (folder.parent / f"{folder.name}.splits.json").write_text(json.dumps({split: names}))
    return folder


def test_training_tasks_are_of_every_source_in_colour(pets):
    settings = mixed(pets)
    tasks = [task_of(settings, "train")(number) for number in range(12)]
    grey = [bool((task.context_x[:, :1] == task.context_x).all()) for task in tasks]
    assert {len(task.context_x[0]) for task in tasks} == {3}
    assert 0 < sum(grey) < 12
    assert max(task.way for task in tasks) <= 6
    assert max(len(task.context_y) for task in tasks) <= 12
    alone = [task_of(settings, "test", sources=["glyphs"])(number) for number in range(4)]
    assert all((task.context_x[:, :1] == task.context_x).all() for task in alone)


@pytest.mark.parametrize("learner", ["protonets", "cnaps"])
def test_each_source_is_validated_and_tested_by_itself(tmp_path, pets, only_test, learner):
    settings = mixed(pets, learner=learner, test_sources=["glyphs", str(only_test)])
    run(settings, tmp_path)
    record = read_record(tmp_path)
    assert [(row.weights, row.source, row.way, row.shot) for row in record.results] == [
        (weights, source, None, None) for weights in ("final", "best") for source in ("glyphs", str(only_test))
    ]
    validation = record.result["validation"]
    by_source = validation["sources"]["TaskNorm-I"]
    assert set(by_source) == {"glyphs", f"folder:{pets}"}
    means = torch.tensor(list(by_source.values())).mean(0)
    torch.testing.assert_close(torch.tensor(validation["accuracy"]["TaskNorm-I"]), means)
    assert {type(alpha["scale"]) for alpha in record.result["alphas"]} == {float}
    assert 5 <= record.result["contexts"] <= 12


def test_sources_too_large_for_a_cache_are_read_directly(pets, monkeypatch):
    cached = task_of(mixed(pets), "train")(3)
    monkeypatch.setattr("tasknorm.runs.parts.LARGEST_CACHE", 0)
    monkeypatch.setattr("tasknorm.runs.parts.Cached", None)
    direct = task_of(mixed(pets), "train")(3)
    assert torch.equal(direct.target_y, cached.target_y)
    torch.testing.assert_close(direct.context_x, cached.context_x, rtol=0, atol=1 / 255)


def test_sources_without_valid_classes_are_not_validated(tmp_path, pets):
    only_train = with_splits(tmp_path / "strangers", "train")
    assert validated_sources(mixed(pets, source=[str(pets), str(only_train)])) == (str(pets),)
    with pytest.raises(DataError, match="validation needs a source with valid classes"):
        run(mixed(pets, source=str(only_train)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_validation_may_have_sources_of_its_own(tmp_path, pets, only_test):
    named = mixed(pets, source="glyphs", validation_sources=["glyphs", f"folder:{pets}"])
    assert validated_sources(named) == ("glyphs", f"folder:{pets}")
    assert task_of(named, "train")(0).context_x.shape[1] == 3  # a net for both
    run(named, tmp_path)
    assert set(read_record(tmp_path).result["validation"]["sources"]["TaskNorm-I"]) == {"glyphs", f"folder:{pets}"}
    with pytest.raises(DataError, match="leave the others out of validation_sources"):
        validated_sources(mixed(pets, validation_sources=str(only_test)))


@pytest.mark.parametrize("learner", ["protonets", "cnaps"])
@pytest.mark.parametrize("norm", ["TBN", "BRN", "TaskNorm-I"])
def test_unbiased_variances_reach_every_norm_and_every_norm_that_shares_the_training(learner, norm):
    changes = {"learner": learner, "net": "resnet-small", "filters": None, "norm": norm}
    for unbiased in (False, True):
        settings = tiny(**changes, unbiased=unbiased)
        for tested in settings.tested_norms:
            model = as_norm(learner_of(settings), tested, settings)
            norms = [module for module in model.modules() if isinstance(module, Norm)]
            assert {each.unbiased for each in norms} == {unbiased}
    assert not tiny(**changes).unbiased


def test_grey_images_become_colour_if_that_is_asked_for():
    settings = tiny(colour=True)
    assert task_of(settings, "train")(0).context_x.shape[1] == 3
    assert learner_of(settings).net.image_shape[0] == 3


def test_a_run_without_validation_tasks_is_trained_and_adapted_uncalibrated(tmp_path):
    settings = tiny(validate_every=0, validation_tasks=0, iterations=2)
    assert len(run(settings, tmp_path)["accuracies"]) == 1
    assert read_calibration(RunFolder(tmp_path)).norms == {}
    assert Adapter(tmp_path).preparation.size == 28
    with pytest.raises(SettingsError, match="validation_tasks=0 contradicts validate_every=5"):
        tiny(validation_tasks=0)


def test_several_ways_with_one_net(tmp_path):
    (row, other) = run(tiny(test_ways="5,12", validate_every=0, iterations=2), tmp_path)["accuracies"]
    assert (row["way"], other["way"]) == (5, 12)


def test_the_best_weights_are_better_on_half_of_the_sources():
    best = {"a": 0.5, "b": 0.5, "c": 0.5}
    assert is_better(best, {})
    assert is_better({"a": 0.6, "b": 0.6, "c": 0.1}, best)
    assert not is_better({"a": 0.6, "b": 0.5, "c": 0.5}, best)
    assert is_better({"a": 0.6, "b": 0.1}, {"a": 0.5, "b": 0.5})
    assert not is_better({"a": 0.5}, {"a": 0.5})


@pytest.mark.realdata
@pytest.mark.parametrize("learner", ["protonets", "cnaps"])
def test_the_small_meta_dataset(data_root, monkeypatch, learner):
    monkeypatch.setenv("TASKNORM_DATA", str(data_root))
    settings = tiny(learner=learner, source="cu_birds,vgg_flower", test_sources="dtd", **SMALL)
    model = learner_of(settings).train()
    losses, logits = model.learn([task_of(settings, "train")(number) for number in range(3)])
    losses.sum().backward()
    assert len(logits) == 3
    assert task_of(settings, "test", sources=["dtd"])(0).way <= 6


def test_a_source_without_test_classes_says_how_to_train_without_a_test(tmp_path):
    settings = tiny(source=f"folder:{with_splits(tmp_path / 'pets', 'train')}")
    source = opened(settings.all_sources[0])
    assert sampler_of(settings, source.spec, "train")
    with pytest.raises(DataError, match=r"pets: there are no test classes; .* or train without a test: --test-tasks 0"):
        sampler_of(settings, source.spec, "test")
