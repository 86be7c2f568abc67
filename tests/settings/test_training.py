"""Settings: the papers' values, and an error that names whatever is wrong."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from tasknorm.errors import SettingsError
from tasknorm.grid.grid_run import GridRun
from tasknorm.settings.config import read_config
from tasknorm.settings.training import Settings

META_DATASET = {
    "net": "resnet18",
    "image_size": 84,
    "meta_batch": 16,
    "iterations": 3750,
    "sampling": "variable",
    "learning_rate": 1e-3,
    "alpha": "functional-shared",
    "max_context": 400,
    "test_max_context": 500,
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"source": "omniglot"}, {"meta_batch": 32, "inner_lr": 0.4, "inner_steps": 1, "targets": 1, "rotate": True}),
        ({"source": "omniglot", "way": 20}, {"meta_batch": 16, "inner_lr": 0.1, "inner_steps": 5, "clip": None}),
        ({"source": "omniglot", "shot": 5}, {"targets": 5, "train_targets": 5, "test_steps": 10, "eps": 1e-3}),
        ({"source": "mini_imagenet"}, {"meta_batch": 4, "clip": 10.0, "train_targets": 15, "image_size": 84}),
        ({"learner": "protonets", "source": "omniglot_vinyals"}, {"train_way": 60, "halve_every": 2000, "targets": 15}),
        ({"learner": "protonets", "source": "mini_imagenet", "shot": 5}, {"train_way": 20, "scale": "standard"}),
        ({"learner": "protonets", "source": "dtd,cu_birds"}, META_DATASET | {"reduction": "sum", "halve_every": 0}),
        ({"learner": "protonets", "sampling": "variable"}, META_DATASET | {"net": "resnet-small", "image_size": 28}),
        ({"learner": "protonets", "source": "dtd,cu_birds", "sampling": "fixed"}, {"net": "protonets-conv4"}),
        ({"learner": "cnaps", "source": "dtd"}, META_DATASET | {"film": True, "encoder_filters": 64, "max_way": 40}),
        ({"learner": "cnaps", "source": "dtd", "norm": "IN"}, {"iterations": 12_500}),
    ],
)
def test_the_papers_protocols(given, expected):
    settings = Settings.of({"learner": "maml"} | given)
    assert {name: settings.values()[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"wya": 5}, ["unknown setting 'wya'; did you mean 'way'?"]),
        ({"way": "five"}, ["way", "'five'"]),
        ({"learner": "mamal"}, ["learner must be one of", "maml", "'mamal'"]),
        ({"norm": "BatchNorm"}, ["norm must be one of", "TaskNorm-I", "'BatchNorm'"]),
        ({"iterations": 0}, ["iterations=0 contradicts learner=maml, which is meta-trained"]),
        ({"iterations": -1}, ["iterations", "got -1"]),
        ({"learner": "ncm"}, ["pretrained must be set with learner=ncm"]),
        ({"learner": "ncm", "pretrained": "x", "iterations": 9}, ["iterations=9 contradicts learner=ncm"]),
        (
            {"learner": "protonets", "inner_lr": 0.4},
            ["inner_lr=0.4 is a setting of maml, and the learner is protonets; leave inner_lr out"],
        ),
        ({"norm": "LN", "alpha": "functional-shared"}, ["alpha", "contradicts norm=LN"]),
        ({"norm": "LN", "schedule": 10}, ["schedule=10 contradicts norm=LN"]),
        ({"norm": "Baseline"}, ["norm=Baseline contradicts pretrained=None"]),
        ({"train_way": 20}, ["train_way=20 contradicts way=5"]),
        ({"recompute": True}, ["recompute", "contradicts learner=maml"]),
        ({"compile": True, "first_order": False}, ["compile", "first_order"]),
        ({"net": "protonets-conv4"}, ["net=protonets-conv4 contradicts learner=maml"]),
        ({"meta_batch": 2, "accumulate": 3}, ["accumulate=3 contradicts meta_batch=2"]),
        ({"learning_rate": float("nan")}, ["learning_rate"]),
        ({"source": "glyphs,,dtd"}, ["source must be different names", "'glyphs,,dtd'"]),
        ({"test_sources": "dtd,dtd"}, ["test_sources must be different names"]),
        ({"test_targets": "all,each"}, ["test_targets must be one or more of all, example, class"]),
        ({"augment": "flip,spin"}, ["augment must be one or more of crop, flip, colour", "'flip,spin'"]),
        ({"augment": "flip,flip"}, ["augment must be different names"]),
        ({"augment": ""}, ["augment must be different names"]),
        ({"resize": "stretch"}, ["resize", "'crop'", "'stretch'"]),
        ({"scale": "imagenet"}, ["scale", "'centred'", "'imagenet'"]),
        ({"image_size": 1025}, ["image_size", "1024", "got 1025"]),
        ({"test_ways": "5,x"}, ["test_ways must be numbers of at least 2"]),
        ({"test_ways": "5,20"}, ["test_ways=5,20 contradicts way=5"]),
        ({"learner": "cnaps", "test_ways": "5"}, ["test_ways=5 contradicts sampling=variable"]),
    ],
)
def test_errors_name_the_setting(given, words):
    with pytest.raises(SettingsError) as error:
        Settings.of({"learner": "maml"} | given)
    for word in words:
        assert word in str(error.value)


def test_an_unknown_learner_is_all_that_is_said():
    with pytest.raises(SettingsError) as error:
        Settings.of({"learner": "mamal"})
    assert ";" not in str(error.value)


def test_lists_by_commas_or_as_lists():
    given = {"learner": "protonets", "source": ["glyphs", "dtd"], "sampling": "fixed", "test_ways": [5, 20]}
    settings = Settings.of(given)
    assert settings == Settings.of(given | {"source": "glyphs, dtd", "test_ways": "5,20"})
    assert settings.sources == settings.tested_sources == ("glyphs", "dtd")
    assert settings.tested_ways == (5, 20)
    assert Settings.of({"learner": "cnaps"}).tested_ways == (None,)
    assert Settings.of({"learner": "maml", "test_sources": "omniglot"}).tested_sources == ("omniglot",)


def test_augmentations_have_one_order():
    names = [Settings.of({"augment": augment}) for augment in ("colour,crop", ["crop", "colour"], "crop, colour")]
    assert {settings.augment for settings in names} == {"crop,colour"}
    assert names[0].augmentations == ("crop", "colour")
    assert Settings.of({}).augmentations == ()
    assert Settings.of(names[0].values()) == names[0]


def test_settings_are_frozen():
    with pytest.raises(ValidationError):
        Settings.of({"learner": "maml"}).way = 3


def test_tbn_cbn_and_rn_share_one_training():
    assert Settings.of({"learner": "maml", "norm": "RN"}).trained_norm == "CBN"
    assert Settings.of({"learner": "maml", "norm": "RN"}).tested_norms == ("RN", "TBN", "CBN")
    assert Settings.of({"learner": "maml", "norm": "LN"}).tested_norms == ("LN",)


def test_brns_schedule_is_that_of_the_run_as_it_was_first_asked_for():
    short, long = (Settings.of({"learner": "maml", "norm": "BRN", "iterations": n}) for n in (300, 60_000))
    assert (short.schedule, long.schedule) == (600, 40_000)
    assert Settings.of(short.values() | {"iterations": 5000}).schedule == 600
    assert GridRun("part", long).part(0.001).settings.schedule == 40_000


def test_config_files_in_toml_and_json(tmp_path):
    (tmp_path / "a.toml").write_text('learner = "maml"\nway = 20\n')
    (tmp_path / "a.json").write_text(json.dumps({"learner": "maml", "way": 20}))
    assert read_config(tmp_path / "a.toml") == read_config(tmp_path / "a.json")
    (tmp_path / "b.toml").write_text("way: 20")
    with pytest.raises(SettingsError, match="not a valid TOML file"):
        read_config(tmp_path / "b.toml")
    (tmp_path / "b.json").write_text("[1]")
    with pytest.raises(SettingsError, match="table"):
        read_config(tmp_path / "b.json")


def test_a_written_config_gives_the_same_settings():
    settings = Settings.of({"learner": "protonets", "norm": "LN"})
    assert Settings.of(json.loads(json.dumps(settings.values()))) == settings
