"""The commands train and evaluate: what users type, and what they see when it goes wrong."""

from __future__ import annotations

import json

import pytest
from torch.distributed.run import get_args_parser
from typer.testing import CliRunner

from support.runs import flags, tiny
from support.runs import run as run_experiment
from tasknorm.cli import app
from tasknorm.settings.training import Settings

pytestmark = pytest.mark.usefixtures("glyph_cache")


def run(*words, **environment):
    return CliRunner().invoke(app, [str(word) for word in words], env=environment)


def failed(result, *parts):
    assert result.exit_code == 2
    assert result.stderr.startswith("tasknorm: ")
    assert result.stderr.count("\n") == 1  # one message, no traceback
    for part in parts:
        assert part in result.stderr


def test_every_setting_is_a_flag_and_help_ends_with_an_example():
    text = " ".join(run("train", "--help", COLUMNS="200").stdout.split())
    for name in Settings.fields():
        assert f"--{name.replace('_', '-')}"[:20] in text
    assert "Example: tasknorm train" in text
    for words in ("Default: maml.", "Default: 60000.", "Default: TaskNorm-I.", "Default: no."):
        assert words in text
    assert "Default: maml; protonets with --net." in " ".join(run("compare", "--help", COLUMNS="200").stdout.split())
    for words in ("needs tasknorm[tensorboard]", "unit|signed|standard"):
        assert words in text
    assert "Example: tasknorm evaluate" in " ".join(run("evaluate", "--help").stdout.split())
    assert "Example: tasknorm pretrain" in " ".join(run("pretrain", "--help").stdout.split())


def test_torchrun_takes_no_flag_of_ours_for_its_own():
    """It reads the words after `-m tasknorm train` too, and completes what is short for one of its flags."""
    theirs = {flag for action in get_args_parser()._actions for flag in action.option_strings}
    for name in Settings.fields():
        ours = f"--{name.replace('_', '-')}"
        assert not [flag for flag in theirs if flag.startswith(ours)], ours


def test_train_then_evaluate(tmp_path):
    result = run("train", *flags(tiny(norm="CBN")), "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert "final TBN         glyphs 5-way 1-shot, targets: all" in result.stdout
    result = run("evaluate", tmp_path / "run", "--targets", "all,example,class", "--norm", "TBN", "--tasks", "3")
    assert [line.split()[:7] for line in result.stdout.splitlines()] == [
        [which, "TBN", "glyphs", "5-way", "1-shot,", "targets:", way]
        for which in ("final", "best")
        for way in ("all", "example", "class")
    ]
    assert "transductive" in result.stdout
    found = json.loads(run("evaluate", tmp_path / "run", "--norm", "RN", "--tasks", "3", "--json").stdout)
    assert [(row["weights"], row["norm"], row["tasks"]) for row in found] == [("final", "RN", 3), ("best", "RN", 3)]
    failed(run("evaluate", tmp_path / "run", "--norm", "LN"), "norm=LN contradicts the run")
    failed(
        run("evaluate", tmp_path / "run", "--targets", "each"), "targets must be one of all, example, class, got 'each'"
    )
    failed(run("evaluate", tmp_path), "no finished training in this folder (no model.safetensors)")
    failed(run("evaluate", tmp_path / "run" / "config.json"), "this is a file, and a run is a folder; name the folder")


def test_a_run_that_keeps_its_final_weights_alone_is_evaluated_by_these(tmp_path):
    result = run("train", *flags(tiny(norm="LN", test_weights="final", test_tasks=0)), "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    words = ["evaluate", tmp_path / "run", "--tasks", "3", "--json"]
    assert [row["weights"] for row in json.loads(run(*words).stdout)] == ["final", "best"]
    (tmp_path / "run" / "best.safetensors").unlink()
    assert [row["weights"] for row in json.loads(run(*words).stdout)] == ["final"]


def test_a_config_file_and_flags_that_win(tmp_path):
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(tiny(test_tasks=0, validate_every=0).values()))
    result = run("train", "--config", config, "--iterations", "3", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert json.loads((tmp_path / "run" / "config.json").read_text())["iterations"] == 3
    assert result.stdout == (
        f"{tmp_path / 'run'}: not tested. Next: tasknorm adapt {tmp_path / 'run'} --context FOLDER "
        "--out FILE.safetensors\n"
    )
    config.write_text('{"learner": "maml", "itertions": 3}')
    failed(
        run("train", "--config", config, "--out", tmp_path / "other"),
        "unknown setting 'itertions'; did you mean 'iterations'?",
    )
    assert not (tmp_path / "other").exists()


def test_a_used_folder_is_refused_and_resumed(tmp_path):
    words = ["train", *flags(tiny(test_tasks=0, validate_every=0)), "--out", tmp_path / "run"]
    assert run(*words, "--resume").exit_code == 0  # nothing there: starts anew
    failed(run(*words), "this folder is not empty; add --resume to continue its training")
    again = run(*words, "--resume")
    assert again.exit_code == 0
    assert "finished already" in again.stderr
    failed(run("train", "--out", tmp_path / "run", "--resume", "--norm", "LN"), "norm=LN contradicts the run in")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    failed(run("train", "--out", tmp_path / "mine", "--resume"), "no run to resume in this folder (no config.json)")


def test_mistakes(tmp_path):
    out = ["--out", tmp_path / "run"]
    assert "No such option" in run("train", "--wya", "5", *out).stderr
    failed(run("train", "--way", "five", *out), "way", "'five'")
    failed(run("train", "--net", "mynet", *out), "resnet-small, or package.module:function, or hf:FOLDER, got 'mynet'")
    failed(run("train", "--source", "nowhere", *out), "nowhere")
    failed(run("train", "--source", "omniglt", *out), "did you mean 'omniglot'?")
    failed(
        run("train", "--learner", "protonets", "--inner-lr", "0.1", *out),
        "inner_lr=0.1 is a setting of maml, and the learner is protonets",
    )
    failed(run("pretrain", "--epochs", "0", *out), "epochs", "got '0'")
    failed(run("train", *flags(tiny(train_way=5, way=5, shot=19)), *out), "shots")
    too_many = "900-way tasks need 900 classes, and its train split has", "lower train_way"
    failed(run("train", *flags(tiny(train_way=900)), *out), *too_many)
    failed(run("train", *flags(tiny(image_size=8)), *out), "contradicts image_size=8: four poolings need")
    failed(run("train", "--config", tmp_path / "none.toml", *out), "config file not found: ")
    failed(run("pretrain", "--source", "nowhere", *out), "nowhere")
    assert not (tmp_path / "run").exists()


def test_folders_of_another_kind_and_damaged_ones_are_refused(tmp_path):
    folder = tmp_path / "run"
    run_experiment(tiny(iterations=2, validate_every=0), folder)
    failed(
        run("pretrain", "--out", folder, "--resume"),
        "no pretraining to resume in this folder, it holds another kind of run",
    )
    (folder / "model.safetensors").unlink()
    failed(run("evaluate", folder), "no finished training in this folder (no model.safetensors)")
    result = (folder / "result.json").read_text()
    (folder / "result.json").write_text(result[:100])
    failed(run("report", folder, "--out", tmp_path / "report"), "result.json: damaged (Invalid JSON")
    text = json.loads(result)
    text["accuracies"][0]["accuracy"] = "good"
    (folder / "result.json").write_text(json.dumps(text))
    failed(run("report", folder, "--out", tmp_path / "report"), "accuracies.0.accuracy: Input should be a valid number")
    (folder / "result.json").write_text(result)
    (folder / "config.json").write_text("{}")
    failed(
        run("train", "--out", folder, "--resume"), "no training to resume in this folder, it holds another kind of run"
    )
    failed(
        run("report", folder, "--out", tmp_path / "report"),
        "config.json: not the config file of a training: it names no learner",
    )


def test_a_checkpoint_of_another_norm_is_refused(tmp_path):
    run_experiment(tiny(test_tasks=0, validate_every=0), tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    config = tmp_path / "run" / "config.json"
    config.write_text(json.dumps(tiny(norm="LN", test_tasks=0, validate_every=0).values()))
    failed(run("train", "--out", tmp_path / "run", "--resume"), "its norm must be LN, got TaskNorm-I")
