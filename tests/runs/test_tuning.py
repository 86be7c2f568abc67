"""Tuning of pretrained networks: what is trained, what is chosen, and that all that a run can do works with them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import tasknorm
from support.families import FAMILIES, named, pretrained
from support.own_network import MINE, SIZE, SMALL, write_place
from support.runs import ended, started, wait_for_lines
from tasknorm.cli import app
from tasknorm.data import listed_pictures
from tasknorm.errors import SettingsError, WeightsError
from tasknorm.learners import Calibration, Predictor, ProtoNets
from tasknorm.norms import RUNNING, Norm
from tasknorm.runs import Adapter, adapted, evaluated, export_run, read_record
from tasknorm.runs.candidates import before_training
from tasknorm.runs.meta_test import loaded, settings_of, task_of
from tasknorm.runs.parts import learner_of
from tasknorm.settings import Settings, for_tuning
from tasknorm.training import RunFolder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos of 24 classes and a module that makes networks."""
    folder = tmp_path_factory.mktemp("place")
    write_place(folder)
    return folder


@pytest.fixture(autouse=True)
def here(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Work in that folder, with one cache."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setenv("TASKNORM_CACHE", str(place / "cache"))


@pytest.fixture(scope="module")
def tuned(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished tuning of a network of one's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(sys, "path", ["", *sys.path])
        patch.setenv("TASKNORM_CACHE", str(place / "cache"))
        tasknorm.tune(place / "tuned", net=MINE, source="folder:photos", norm="TaskNorm-r", **SMALL)
    return place / "tuned"


def context(place: Path, count: int = 2) -> dict[str, list[Path]]:
    """Images of three classes."""
    folders = sorted((place / "photos").iterdir())[:3]
    return {folder.name: sorted(folder.iterdir())[:count] for folder in folders}


def run_logits(file: Path, x: torch.Tensor) -> torch.Tensor:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return torch.from_numpy(logits)


@pytest.mark.parametrize("family", FAMILIES)
def test_five_families_tune_adapt_save_reload_and_export(family: str, place: Path, tmp_path: Path, capfd) -> None:
    name = named(family, tmp_path / "network")
    weights = pretrained(name, SIZE, tmp_path / "weights.pth")
    settings = SMALL | {"norm": "TaskNorm-r", "iterations": 2, "validation_tasks": 2, "test_tasks": 2}
    record = tasknorm.tune(tmp_path / "run", net=name, pretrained=str(weights), source="folder:photos", **settings)
    assert ("has no batch norm to convert" in capfd.readouterr().err) == (family == "convnext")
    assert [result.weights for result in record.results] == ["as it was", "start", "final", "best"]
    assert set(record.result["chosen"]["TaskNorm-r"]["validation"]) == {"as it was", "start", "iteration 2"}
    predictor = adapted(tmp_path / "run", context(place))
    predictor.save(tmp_path / "predictor.safetensors")
    shutil.rmtree(tmp_path / "network", ignore_errors=True)  # the file alone is enough
    again = Predictor.load(tmp_path / "predictor.safetensors")
    x = torch.rand(4, 3, SIZE, SIZE) * 2 - 1
    with torch.no_grad():
        torch.testing.assert_close(again(x), predictor(x))
    again.add("new", context(place)[again.names[0]])
    assert len(again.names) == 4
    predictor.export(tmp_path / "predictor.onnx")
    torch.testing.assert_close(run_logits(tmp_path / "predictor.onnx", x), predictor(x), rtol=1e-3, atol=1e-3)
    saved = (tmp_path / "predictor.safetensors").read_bytes()
    assert str(tmp_path).encode() not in saved  # nothing of this machine


def test_only_what_is_small_moves_and_running_moments_do_not(tuned: Path) -> None:
    settings = settings_of(RunFolder(tuned))
    before = learner_of(settings).state_dict()
    after = loaded(settings, RunFolder(tuned).final, "TaskNorm-r").state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    small = {f"net.net.{i}.{what}" for i in (1, 4) for what in ("weight", "bias", "alpha_scale", "alpha_offset")}
    assert moved - {f"net.net.{i}.{RUNNING[-1]}" for i in (1, 4)} == small | {"temperature.log_factor"}
    trained = {name for name, parameter in learner_of(settings).named_parameters() if parameter.requires_grad}
    assert trained == small | {"temperature.log_factor"}
    norms = [norm for norm in learner_of(settings).modules() if isinstance(norm, Norm)]
    assert [float(norm.alpha(7).detach()) for norm in norms] == pytest.approx([0.02] * 2, abs=1e-6)


def test_the_start_is_nearly_the_network_as_it_was(tuned: Path) -> None:
    settings = settings_of(RunFolder(tuned))
    episode = task_of(settings, "test", 0)(0)
    with torch.no_grad():
        plain = learner_of(settings.untouched).eval().net.net
        untouched = before_training(settings, "as it was", "Baseline").eval()
        import my_networks

        net = my_networks.small().eval()
        torch.testing.assert_close(plain(episode.context_x), net(episode.context_x))
        features = net(episode.context_x).mean((2, 3)), net(episode.target_x).mean((2, 3))
        means = torch.stack([features[0][episode.context_y == c].mean(0) for c in range(3)])
        nearest = torch.cdist(features[1], means).argmin(1)
        assert torch.equal(untouched(episode).argmax(1), nearest)
        start = before_training(settings, "start", "TaskNorm-r").eval()
        predictors = [each.adapt(episode.context_x, episode.context_y) for each in (start, untouched)]
        found, wanted = (predictor.net(episode.target_x) for predictor in predictors)
        assert (found - wanted).abs().mean() < 0.1 * wanted.abs().mean()


def test_the_temperature_starts_where_training_tasks_want_it(place: Path) -> None:
    settings = Settings.of(for_tuning({"net": MINE, "source": "folder:photos"} | SMALL))
    learner, episode = learner_of(settings), task_of(settings, "train")
    assert isinstance(learner, ProtoNets)

    with torch.no_grad():
        found = [(learner.eval()(task), task.target_y) for task in map(episode, range(8))]
    learner.begin(episode)
    wanted = Calibration.on(*zip(*found, strict=True)).temperature
    assert torch.exp(-learner.temperature.log_factor).item() == pytest.approx(wanted)
    assert wanted != pytest.approx(1, abs=0.1)
    task = episode(0)
    predictor = learner.adapt(task.context_x, task.context_y)
    with torch.no_grad():
        torch.testing.assert_close(predictor(task.target_x), learner.eval()(task))


def rows(folder: Path) -> dict[str, float]:
    return {result.weights: result.accuracy.mean for result in read_record(folder).results}


@pytest.mark.parametrize("norm", ["TaskNorm-r", "TaskNorm-I", "TBN"])
def test_a_ruinous_learning_rate_leaves_the_network_as_it_was(norm: str, place: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    given = SMALL | {"learning_rate": 50.0, "iterations": 2, "test_tasks": 6}
    record = tasknorm.tune(run, net=MINE, source="folder:photos", norm=norm, **given)
    chosen = record.result["chosen"][norm]
    assert (chosen["candidate"], chosen["validation"]["as it was"]) == ("as it was", 1.0)
    assert chosen["validation"]["iteration 2"] < 1.0
    best = next(result for result in record.results if result.weights == "best" and result.norm == norm)
    untouched = next(result for result in record.results if result.weights == "as it was")
    assert best.accuracy == untouched.accuracy
    assert (best.candidate, best.gain.mean, best.gain.interval, best.label) == ("as it was", 0, 0, "non-transductive")
    assert "chosen: as it was" in str(best)
    adapter = Adapter(run)
    assert (adapter.norm, adapter.candidate, adapter.learner.label) == ("Baseline", "as it was", "NCM")
    import my_networks

    x = torch.rand(2, 3, SIZE, SIZE)
    torch.testing.assert_close(adapter.learner.net(x), my_networks.small().eval()(x).mean((2, 3)))
    again = evaluated(run, ["all"], None, 6, 0)
    assert {row.weights: row.accuracy for row in again}["best"] == untouched.accuracy
    adapter(context(place)).save(tmp_path / "p.safetensors")
    assert Predictor.load(tmp_path / "p.safetensors", MINE).learner == "NCM"
    export_run(run, tmp_path / "learner.onnx")
    told = CliRunner().invoke(app, ["evaluate", str(run), "--tasks", "3"])
    assert "chosen: as it was" in told.stdout


def weights_and_record(folder: Path) -> tuple[dict[str, bytes], dict]:
    record = json.loads((folder / "result.json").read_text())
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    lines = [{key: value for key, value in line.items() if key != "seconds"} for line in metrics]
    files = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
    return files, {"chosen": record["chosen"], "accuracies": record["accuracies"], "lines": lines}


@pytest.mark.parametrize("learning_rate", ["0.0005", "0.5"])
def test_killed_and_resumed_it_is_the_same_run(learning_rate: str, place: Path, tmp_path: Path) -> None:
    settings = SMALL | {"iterations": 30, "validate_every": 10, "checkpoint_every": 7, "learning_rate": learning_rate}
    tasknorm.tune(tmp_path / "through", net=MINE, source="folder:photos", **settings)
    words = [word for key, value in settings.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    folder = tmp_path / "killed"
    for goal in (1, 2, 12):  # after the network as it was was validated, after the start was, and in between
        process = started("tune", "--net", MINE, "--source", "folder:photos", *words, "--out", folder, "--resume")
        wait_for_lines(folder / "metrics.jsonl", goal, process)
        os.kill(process.pid, signal.SIGKILL)
        ended(process)
    code, _, err = ended(started("tune", "--out", folder, "--resume"))
    assert code == 0, err
    assert weights_and_record(folder) == weights_and_record(tmp_path / "through")


def test_the_command_tells_what_was_chosen(place: Path, tmp_path: Path) -> None:
    words = [word for key, value in SMALL.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    command = ["tune", "--net", MINE, "--source", "folder:photos", "--norm", "CBN", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, [*command, *words])
    assert result.exit_code == 0, result.output
    for norm in ("TBN", "CBN", "RN"):
        assert f"{norm}: chosen on validation tasks: " in result.stdout
    assert result.stdout.count("against as it was") == 9
    again = CliRunner().invoke(app, [*command, *words])
    assert again.exit_code == 2
    assert "is not empty; add --resume" in again.stderr


class TestNetworksOfOneOwn:
    def test_a_file_alone_calls_no_function(self, tuned: Path, place: Path, tmp_path: Path) -> None:
        file = tmp_path / "predictor.safetensors"
        predictor = adapted(tuned, context(place))
        predictor.save(file)
        with pytest.raises(WeightsError, match=r"holds the network 'my_networks:small', and a file alone does not"):
            Predictor.load(file)
        x = torch.rand(2, 3, SIZE, SIZE)
        torch.testing.assert_close(Predictor.load(file, MINE)(x), predictor(x))
        photos = sorted((place / "photos").glob("*/*"))[:2]
        refused = CliRunner().invoke(app, ["predict", str(file), *map(str, photos)])
        assert refused.exit_code == 2
        done = CliRunner().invoke(app, ["predict", str(file), *map(str, photos), "--net", MINE])
        assert done.exit_code == 0, done.output

    @pytest.mark.parametrize(
        ("changes", "error", "said"),
        [
            ({"net": "nowhere:net"}, SettingsError, "no function 'net' in a module 'nowhere'"),
            ({"net": "my_networks:nothing"}, SettingsError, "no function 'nothing'"),
            ({"net": "my_networks:with_arguments"}, SettingsError, "without arguments"),
            ({"net": "my_networks:logits_by_name"}, SettingsError, "must return features or maps, got dict"),
            ({"net": "my_networks:bare", "temperature": False}, SettingsError, "has no norm whose gamma and beta"),
            ({"net": MINE, "pretrained": "pickled.pth"}, WeightsError, "no file of weights alone"),
            ({"net": MINE, "pretrained": "other.pth"}, WeightsError, "not of the network Sequential"),
            ({"net": MINE, "pretrained": "missing.pth"}, WeightsError, "cannot be read"),
            ({"net": MINE, "learner": "maml"}, SettingsError, "needs a net with a classifier"),
            ({"net": MINE, "learner": "ncm"}, SettingsError, "ncm"),
            ({"net": MINE, "filters": 3}, SettingsError, "filters=3 contradicts"),
            ({"net": MINE, "validate_every": 0}, SettingsError, "validation tasks decide"),
            ({"net": "protonets-conv4"}, SettingsError, "needs a pretrained network"),
        ],
    )
    def test_bad_inputs_get_a_sentence_and_leave_nothing(
        self, changes: dict, error: type, said: str, place: Path, tmp_path: Path
    ) -> None:
        torch.save(nn.Linear(2, 2), place / "pickled.pth")
        torch.save({"a": torch.zeros(1)}, place / "other.pth")
        with pytest.raises(error, match=said):
            tasknorm.tune(tmp_path / "run", **{"source": "folder:photos"} | SMALL | changes)
        assert not (tmp_path / "run" / "config.json").exists()


def test_cnaps_generates_film_and_classifier_on_any_network(place: Path, tmp_path: Path) -> None:
    given = SMALL | {"learner": "cnaps", "encoder_filters": 8, "norm": "TaskNorm-r", "iterations": 2}
    record = tasknorm.tune(tmp_path / "run", net=MINE, source="folder:photos", **given)
    assert {result.weights for result in record.results} == {"as it was", "start", "final", "best"}
    settings = settings_of(RunFolder(tmp_path / "run"))
    learner = loaded(settings, RunFolder(tmp_path / "run").final, "TaskNorm-r")
    predictor = learner.eval().adapt_to(context(place), Adapter(tmp_path / "run").preparation)
    predictor.save(tmp_path / "predictor.safetensors")
    again = Predictor.load(tmp_path / "predictor.safetensors", MINE)
    x = torch.rand(2, 3, SIZE, SIZE)
    torch.testing.assert_close(again(x), predictor(x))
    assert again.classify(listed_pictures(context(place)[again.names[0]]))[0].name
