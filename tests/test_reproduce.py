"""Every experiment file, at every scale; a smoke run of each; the verb `reproduce`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tasknorm.cli import app
from tasknorm.errors import SettingsError
from tasknorm.grid.experiments import DIAGRAMS, SCALES, all_runs, combinations, experiment, names, run_name, together
from tasknorm.grid.grid_run import GridRun
from tasknorm.reproduce import reproduce
from tasknorm.settings import PretrainSettings
from tasknorm.settings.training import Settings

EXPERIMENTS = [experiment(name) for name in names()]

TABLES = [
    "maml_results",
    "protonets_results",
    "cnaps_meta_dataset",
    "protonets_meta_dataset",
    "transduction_issues",
    "parameterization_maml",
    "parameterization_cnaps",
]
FIGURES = [
    "alpha_curves",
    "a_b_curves",
    "maml_accuracy_vs_shot",
    "omniglot_5_5_training_curves",
    "cnaps_training_curves",
    "proto_nets_o-20_1_training_curves",
    "proto_nets_meta_dataset_training_curves",
    "maml_parameterization_training_curves",
    "cnaps_parameterization_training_curves",
]


def norms_of(name: str, scale: str) -> set[str]:
    """The norms that an experiment's runs are tested with."""
    runs = experiment(name).runs(scale, Path("runs"))
    return {norm for one in runs if isinstance(one.settings, Settings) for norm in one.settings.tested_norms}


def test_every_table_and_figure_has_its_experiment():
    assert [one.label for one in EXPERIMENTS] == sorted(f"tab:{name}" for name in TABLES) + sorted(
        f"fig:{name}" for name in FIGURES
    )
    assert {one.label for one in EXPERIMENTS}.isdisjoint(DIAGRAMS)


@pytest.mark.parametrize("scale", SCALES)
def test_no_norm_is_cut(scale):
    small = {"TBN", "CBN", "BRN", "LN", "IN", "RN", "MetaBN", "TaskNorm-L", "TaskNorm-I"}
    assert norms_of("maml_results", scale) == norms_of("protonets_results", scale) == small
    assert norms_of("protonets_meta_dataset", scale) == small | {"TaskNorm-r"}
    assert norms_of("cnaps_meta_dataset", scale) == small | {"TaskNorm-r", "Baseline"}
    alphas = {one.settings.alpha for one in experiment("parameterization_cnaps").runs(scale, Path()) if one.needs}
    assert alphas == {f"{form}-{kind}" for form in ("independent", "functional") for kind in ("channel", "shared")}


def test_the_papers_settings_are_the_protocols():
    for one in all_runs(EXPERIMENTS, "paper", Path("runs")):
        if isinstance(one.settings, Settings) and one.settings.learner == "maml":
            assert one.settings.iterations == 60_000
            assert one.settings.test_tasks == 600
    found = {one.name: one.settings for one in all_runs(EXPERIMENTS, "paper", Path("runs"))}
    assert found["maml-omniglot-20-1-IN"].own.inner_steps == 5
    assert found["cnaps-meta_dataset-IN"].iterations == 200_000 // 16
    assert len(found["cnaps-meta_dataset-IN"].tested_sources) == 13
    for learner in ("cnaps", "protonets"):
        trained = set(found[f"{learner}-meta_dataset-IN"].sources)
        assert set(found[f"{learner}-meta_dataset-IN"].validation_sources.split(",")) == trained | {"mscoco"}
    assert found["pretrain-ilsvrc_2012-resnet18"] == PretrainSettings(source="ilsvrc_2012")


def test_runs_are_shared_and_must_agree():
    table = experiment("tab:maml_results").runs("cpu", Path("runs"))
    figure = experiment("omniglot_5_5_training_curves").runs("cpu", Path("runs"))
    assert len(figure) == 7
    assert all(one in table for one in figure)
    other = figure[0].settings.model_copy(update={"iterations": 1})
    with pytest.raises(SettingsError, match="different settings for maml-omniglot-5-5"):
        together([*figure, GridRun(figure[0].name, other)])


def test_names_and_combinations():
    settings = Settings.of({"learner": "maml", "alpha": "independent-channel", "seed": 3, "shot": 5})
    assert run_name(settings) == "maml-glyphs-5-5-TaskNorm-I-independent-channel-seed3"
    found = list(combinations({"a": 1, "each": {"b": [1, 2], "c": [3, 4]}}))
    assert found == [{"a": 1, "b": b, "c": c} for b in (1, 2) for c in (3, 4)]
    with pytest.raises(SettingsError, match=r"unknown experiment 'model_graph'; known: .*maml_results"):
        experiment("fig:model_graph")
    with pytest.raises(SettingsError, match="one of paper, cpu, smoke, got 'large'"):
        all_runs(EXPERIMENTS, "large", Path())


def test_the_experiments_of_the_package_are_those_at_the_root():
    root = Path(__file__).parents[1] / "experiments"
    assert sorted(path.stem for path in root.glob("*.toml")) == sorted(names())
    for path in root.glob("*.toml"):
        assert list(tomllib.loads(path.read_text()))[:3] == ["title", "label", "expect"]


def verb(*words: object) -> str:
    result = CliRunner().invoke(app, ["reproduce", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_dry_run_names_the_runs_and_does_nothing(tmp_path):
    found = verb("tab:parameterization_maml", "--dry-run", "--out", tmp_path / "none")
    assert "maml-omniglot-5-1-TaskNorm-I-independent-channel: 0 of 7500 iterations" in found
    assert not (tmp_path / "none").exists()
    assert "independent-channel: 0 of 50 iterations" in verb("parameterization_maml", "--dry-run", "--part", "0.01")


def test_runs_are_chosen_by_name_with_what_they_need(tmp_path):
    found = verb("maml_results", "--dry-run", "--only", "maml-omniglot-20-*", "--only", "maml-mini_imagenet-5-1-LN")
    names = [line.partition(":")[0] for line in found.splitlines()]
    assert len(names) == 2 * 7 + 1
    assert names[-1] == "maml-mini_imagenet-5-1-LN"
    assert all(name.startswith("maml-omniglot-20-") for name in names[:-1])
    found = verb("cnaps_meta_dataset", "--dry-run", "--only", "*-LN", "--out", tmp_path / "none")
    assert [line.partition(":")[0] for line in found.splitlines()] == [
        "pretrain-tiny_imagenet-resnet-small",
        "cnaps-meta_dataset-LN",
    ]


def test_a_name_that_no_run_has_is_refused(tmp_path):
    words = ["reproduce", "maml_results", "--only", "maml-omniglot-22-*", "--out", str(tmp_path / "grid")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "no run is named 'maml-omniglot-22-*'; the first of 42 is 'maml-omniglot-5-1-CBN'" in result.stderr
    assert not (tmp_path / "grid").exists()


def test_without_their_data_runs_are_not_begun(tmp_path, monkeypatch):
    monkeypatch.setenv("TASKNORM_DATA", str(tmp_path / "no data"))
    said: list[str] = []
    failed = reproduce([experiment("cnaps_meta_dataset")], "cpu", tmp_path / "grid", say=said.append)
    assert len(failed) == len(experiment("cnaps_meta_dataset").runs("cpu", tmp_path))
    assert any(
        "not begun: " in text and "tiny_imagenet: there is no data set or path of this name" in text for text in said
    )
    assert not list((tmp_path / "grid").glob("*/config.json"))


@pytest.mark.usefixtures("glyph_cache")
@pytest.mark.parametrize("part", ["0", "1.5", "nan"])
def test_a_part_is_above_zero_and_at_most_one(tmp_path, part):
    result = CliRunner().invoke(
        app, ["reproduce", "maml_results", "--scale", "smoke", "--part", part, "--out", str(tmp_path / "grid")]
    )
    assert result.exit_code == 2
    assert "part must be a share of each run's iterations, above 0 and at most 1, got" in result.stderr
    assert not (tmp_path / "grid").exists()


def test_a_smoke_run_of_each_then_the_list_and_the_report(tmp_path, monkeypatch):
    for one in all_runs(EXPERIMENTS, "smoke", tmp_path):
        one.at(tmp_path).do()
    found = verb("--list", "--scale", "smoke", "--out", tmp_path)
    for one in EXPERIMENTS:
        count = len(one.runs("smoke", tmp_path))
        assert f"{one.label}: {one.title}\n    tasknorm reproduce {one.name}: {count} runs, {count} finished\n" in found
    for label in DIAGRAMS:
        assert f"{label}: a diagram; there is nothing to run" in found
    assert "tasknorm reproduce transduction_issues: 3 runs, 0 finished\n" in verb("--list", "--out", tmp_path / "none")
    assert "all 3 runs are finished" in verb("transduction_issues", "--scale", "smoke", "--out", tmp_path)
    assert (tmp_path / "report" / "report.html").is_file()
    monkeypatch.setattr("tasknorm.reproduce.without_data", lambda needed: {run.name: "moved" for run in needed})
    # What is finished needs no data.
    assert reproduce([experiment("transduction_issues")], "smoke", tmp_path, say=lambda text: None) == {}
