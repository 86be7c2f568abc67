"""The weights that CNAPs' authors released become a run: what it computes, who takes it, and what is refused."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from typer.testing import CliRunner

from support import released_cnaps as released
from tasknorm.cli import app
from tasknorm.errors import DataError, SettingsError, WeightsError
from tasknorm.learners import Predictor
from tasknorm.nets import resnet18
from tasknorm.norms import NORMS, Norm
from tasknorm.runs import Adapter, evaluated, import_cnaps
from tasknorm.runs.meta_test import loaded, settings_of
from tasknorm.runs.parts import learner_of
from tasknorm.settings import Settings
from tasknorm.training import RunFolder, as_ours, check_resumable, load_pretrained, read_released

NAME = "meta_trained_film+task_norm.pt"
PLACE = Path("theirs.pt")


@pytest.fixture(scope="module")
def tensors() -> OrderedDict[str, Tensor]:
    return released.made_up(released.cnaps_shapes())


@pytest.fixture(scope="module")
def file(tensors, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("theirs") / NAME
    torch.save(tensors, path)
    return path


@pytest.fixture(scope="module")
def run(file, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "authors"
    result = CliRunner().invoke(
        app, ["import-cnaps", str(file), "--out", str(folder), "--test-sources", "mnist"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == str(folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def like() -> dict[str, Tensor]:
    """The state dict of our CNAPs with ResNet-18."""
    asked = {"learner": "cnaps", "source": "mini_imagenet", "net": "resnet18", "norm": "TaskNorm-I", "colour": True}
    return learner_of(Settings.of(asked | {"sampling": "variable"})).state_dict()


@pytest.fixture
def photos(tmp_path) -> Path:
    """Three classes of three photos."""
    random = np.random.default_rng(0)
    for name in ("cat", "dog", "eel"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(3):
            pixels = random.integers(0, 256, (90, 100, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def refusal(found: dict[str, Tensor], like: dict[str, Tensor]) -> str:
    with pytest.raises(WeightsError) as error:
        as_ours(found, like, PLACE)
    assert str(error.value).startswith("theirs.pt: ")
    assert "as it was released" in str(error.value)
    return str(error.value)


def test_the_made_up_file_has_the_authors_number_of_parameters(tensors):
    buffers = ("running_mean", "running_var", "num_batches_tracked")
    assert sum(t.numel() for name, t in tensors.items() if not name.endswith(buffers)) == 20_559_543


@torch.no_grad()
def test_logits_follow_the_papers_formulas_with_unbiased_variances(run, tensors):
    settings = settings_of(RunFolder(run))
    learner = loaded(settings, RunFolder(run).final, "TaskNorm-I").double().eval()
    assert sum(parameter.numel() for parameter in learner.parameters()) == 20_559_543
    random = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(11, 3, 84, 84, generator=random, dtype=torch.float64) - 1
    y = torch.tensor([2, 0, 1, 0, 2, 2, 1])
    expected = released.logits({name: t.double() for name, t in tensors.items()}, x[:7], y, x[7:])
    predictor = learner.adapt(x[:7], y)
    torch.testing.assert_close(predictor(x[7:]), expected, rtol=1e-9, atol=1e-9)
    for module in learner.modules():  # and the setting is what makes them agree
        if isinstance(module, Norm):
            module.unbiased = False
    assert (learner.adapt(x[:7], y)(x[7:]) - expected).abs().max() > 1e-4


def test_the_config_says_how_the_authors_trained(run):
    settings = settings_of(RunFolder(run))
    assert (settings.learner, settings.norm, settings.net) == ("cnaps", "TaskNorm-I", "resnet18")
    assert (settings.unbiased, settings.eps, settings.scale, settings.image_size) == (True, 1e-5, "signed", 84)
    assert (settings.iterations * settings.meta_batch, settings.own.regulariser) == (40_000, 0.016)
    assert (settings.tested_sources, settings.tested_weights) == (("mnist",), ("final",))
    assert sorted(path.name for path in run.iterdir()) == ["calibration.json", "config.json", "model.safetensors"]


def test_adapt_takes_the_run_without_any_data_and_its_file_stays_unbiased(run, photos, tmp_path, monkeypatch):
    monkeypatch.setenv("TASKNORM_DATA", str(tmp_path / "none"))
    out = tmp_path / "pets.safetensors"
    words = ["adapt", str(run), "--context", str(photos), "--out", str(out)]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    predictor, images = Predictor.load(out), sorted(photos.rglob("*.png"))[:2]
    assert all(norm.unbiased for norm in predictor.modules() if isinstance(norm, Norm))
    direct = Adapter(run)({path.name: sorted(path.iterdir()) for path in sorted(photos.iterdir())})
    x = direct.preparation(images)
    assert (x.shape, bool(x.min() < -0.9)) == ((2, 3, 84, 84), True)
    torch.testing.assert_close(predictor(x), direct(x))


def test_evaluate_takes_the_run_with_grey_test_images_alone(run, tmp_path, monkeypatch):
    """The network needs three channels, though the training data are not there to say so."""
    folder = tmp_path / "data" / "digits"
    random = np.random.default_rng(0)
    for name in range(5):
        (folder / str(name)).mkdir(parents=True)
        for number in range(2):
            Image.fromarray(random.integers(0, 256, (20, 20), np.uint8)).save(folder / str(name) / f"{number}.png")
    (tmp_path / "data" / "splits.json").write_text(
        json.dumps({"digits": {"train": [], "valid": [], "test": [str(name) for name in range(5)]}})
    )
    monkeypatch.setenv("TASKNORM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TASKNORM_CACHE", str(tmp_path / "cache"))
    here = tmp_path / "run"
    here.mkdir()
    os.link(run / "model.safetensors", here / "model.safetensors")
    config = json.loads((run / "config.json").read_text()) | {"test_sources": "digits", "device": "cpu"}
    (here / "config.json").write_text(json.dumps(config))
    (row,) = evaluated(here, ["all"], None, 1, 0)
    assert (row.weights, row.norm, row.tasks, row.label) == ("final", "TaskNorm-I", 1, "non-transductive")


def test_export_takes_the_run(run, tmp_path, monkeypatch):
    monkeypatch.setenv("TASKNORM_DATA", str(tmp_path / "none"))
    out = tmp_path / "learner.pt2"
    result = CliRunner().invoke(app, ["export", str(run), str(out)], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    program = torch.export.load(out).module()
    x, labels = 2 * torch.rand(8, 3, 84, 84) - 1, torch.eye(2)[torch.tensor([0, 1, 0, 1, 1])]
    with torch.no_grad():
        expected = Adapter(run).learner.adapt(x[:5], labels.argmax(1))(x[5:])
        found = program(x[:5], labels, x[5:])
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_the_run_cannot_be_trained_over(run):
    with pytest.raises(SettingsError, match="there is no training to resume, only its weights"):
        check_resumable(settings_of(RunFolder(run)), run)


def test_layers_may_keep_a_context_and_lack_a_count(tensors, like):
    found = {name: t for name, t in tensors.items() if not name.endswith("num_batches_tracked")}
    for name in [name for name in tensors if name.endswith(".a")]:
        layer, channels = name.removesuffix(".a"), len(tensors[f"{name[:-1]}running_mean"])
        found[f"{layer}.batch_mean"] = torch.full((1, channels, 1, 1), 3.0)
        found[f"{layer}.batch_var"] = torch.full((1, channels, 1, 1), 3.0)
        found[f"{layer}.context_size"] = torch.tensor([400.0])
    ours, plain = as_ours(found, like, PLACE), as_ours(tensors, like, PLACE)
    assert set(plain) - set(ours) == {name for name in like if name.endswith("num_batches_tracked")}
    assert not any(".context_" in name for name in ours)
    for name, tensor in ours.items():
        assert torch.equal(tensor, plain[name])
    odd = next(name for name in found if name.endswith("batch_mean"))
    assert f"{odd} must have the shape (1, 64, 1, 1), got (64,)" in refusal(found | {odd: torch.zeros(64)}, like)


def test_every_tensor_has_its_own_place(tensors, like):
    """Distinct numbers stay distinct: nothing is mapped twice, left out or exchanged with another of its shape."""
    ours = as_ours(tensors, like, PLACE)
    assert len(ours) == len(tensors)
    apart = {name: t for name, t in like.items() if ".film" not in name and ".context_" not in name}
    assert set(ours) == set(apart)
    values = {tuple(t.flatten()[:8].tolist()) for t in ours.values() if t.is_floating_point()}
    assert len(values) == sum(t.is_floating_point() for t in tensors.values())


LAYER = "feature_extractor.layer2.1.bn1"
GAMMA = "feature_adaptation_network.layers.3.gamma2_processors.1.4.linear.weight"


def test_what_does_not_fit_is_refused_by_name(tensors, like):
    def less(*names):
        return {name: tensor for name, tensor in tensors.items() if name not in names}

    assert f"these tensors are missing: {LAYER}.a;" in refusal(less(f"{LAYER}.a"), like)
    assert "and 47 more" in refusal({n: t for n, t in tensors.items() if not n.endswith((".a", ".b"))}, like)
    assert "have no place in the network: fc.weight;" in refusal(tensors | {"fc.weight": torch.zeros(1)}, like)
    turned = tensors | {"set_encoder.pre_pooling_fn.layer1.0.weight": torch.zeros(3, 64, 3, 3)}
    assert "layer1.0.weight must have the shape (64, 3, 3, 3), got (3, 64, 3, 3)" in refusal(turned, like)
    shared = "feature_adaptation_network.layers.3.shared_layer.0.weight"
    assert "(512, 64), got (64, 512)" in refusal(tensors | {shared: tensors[shared].T}, like)
    wrong = tensors[GAMMA].clone()
    wrong[3, 4] = torch.nan
    assert f"{GAMMA} must be finite, got nan at place {3 * 512 + 4}" in refusal(tensors | {GAMMA: wrong}, like)
    infinite = refusal(tensors | {f"{LAYER}.b": torch.tensor([-torch.inf])}, like)
    assert f"{LAYER}.b must be finite, got -inf" in infinite
    for dtype in (torch.float64, torch.float16, torch.complex64):
        told = refusal(tensors | {GAMMA: tensors[GAMMA].to(dtype)}, like)
        assert f"{GAMMA} must have the dtype torch.float32, got {dtype}" in told
    assert "must have the dtype torch.int64" in refusal(
        tensors | {f"{LAYER}.num_batches_tracked": torch.tensor(7.0)}, like
    )
    assert "dense tensor with values" in refusal(tensors | {GAMMA: tensors[GAMMA].to_sparse()}, like)
    assert "dense tensor with values" in refusal(tensors | {GAMMA: torch.empty(512, 512, device="meta")}, like)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


def damaged(folder: Path, tensors) -> dict[str, tuple[Path, str]]:
    """Files of a wrong kind, and what is said of each."""
    small = OrderedDict(list(tensors.items())[:5])
    torch.save(small, folder / "small.pt")
    whole = (folder / "small.pt").read_bytes()
    (folder / "truncated.pt").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.pt").write_bytes(b"")
    torch.save(small | {"x": Evil()}, folder / "evil.pt")
    (folder / "evil.pkl").write_bytes(pickle.dumps(Evil(), 2))
    torch.save([torch.zeros(3)], folder / "list.pt")
    torch.save({"epoch": 3, "loss": torch.zeros(1)}, folder / "other.pt")
    torch.save(torch.nn.Linear(2, 2), folder / "module.pt")
    (folder / "notes.txt").write_text("no weights")
    with zipfile.ZipFile(folder / "small.pt") as old, zipfile.ZipFile(folder / "bomb.pt", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name), zipfile.ZIP_DEFLATED)
    os.mkfifo(folder / "pipe")
    return {
        "small.pt": "these tensors are missing",
        "truncated.pt": "not a whole file of tensors",
        "empty.pt": "not a whole file of tensors",
        "evil.pt": "not a whole file of tensors",
        "evil.pkl": "not a whole file of tensors",
        "list.pt": "tensors by name are needed, got a list",
        "other.pt": "tensors by name are needed, got 'epoch' with a int",
        "module.pt": "not a whole file of tensors",
        "notes.txt": "not a whole file of tensors",
        "bomb.pt": "its parts are compressed",
        "pipe": "not a regular file",
        "absent.pt": "there is no such file",
        ".": "the weights cannot be read",
    }


def test_other_files_are_refused_and_nothing_is_written(tensors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, told in damaged(tmp_path, tensors).items():
        result = CliRunner().invoke(app, ["import-cnaps", name, "--out", "runs/new"])
        assert result.exit_code == 2, (name, result.output, result.exception)
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"tasknorm: {name}: ")
        assert told in line, (name, line)
        assert "weights_only" not in line, "advice to unpickle a stranger's file"
    assert not Path("runs").exists()
    assert not Path("evil").exists()


def test_a_folder_that_exists_stays_as_it_is(file, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="this one is taken"):
        import_cnaps(file, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("prefix", ["", "module."])
@pytest.mark.parametrize("old", [False, True], ids=["zip", "before torch 1.6"])
def test_the_pretrained_resnet_is_one_for_pretrained(prefix, old, tmp_path):
    shapes = released.resnet_shapes("", released.norm_shapes)
    tensors = released.made_up(shapes)
    named = OrderedDict((prefix + name, tensor) for name, tensor in tensors.items())
    path = tmp_path / "pretrained_resnet.pt.tar"
    checkpoint = {"epoch": 90, "arch": "resnet18", "state_dict": named, "best_acc1": torch.tensor(63.9)}
    torch.save(checkpoint, path, _use_new_zipfile_serialization=not old)
    weights = import_cnaps(path, tmp_path / "extractor")
    assert weights == tmp_path / "extractor" / "extractor.safetensors"
    nets = [resnet18(NORMS["TaskNorm-I"], film=True), resnet18(NORMS["BRN"])]
    for net, source in zip(nets, (path, weights), strict=True):
        load_pretrained(net, source)
        assert torch.equal(net.stem.weight, tensors["conv1.weight"])
        assert torch.equal(net.stages[3][0].shortcut[1].running_var, tensors["layer4.0.downsample.1.running_var"])
        assert net.norm.num_batches_tracked == 0
    with pytest.raises(WeightsError, match="these weights do not fit the net ResNet"):
        load_pretrained(resnet18(NORMS["LN"], image_shape=(1, 84, 84)), path)
    with pytest.raises(WeightsError, match="these tensors are missing: set_encoder"):
        as_ours(read_released(path), learner_like(), path)


def learner_like() -> dict[str, Tensor]:
    return {"set_encoder.convs.0.weight": torch.zeros(1)}


def test_tensors_that_share_their_memory_are_read(tmp_path):
    one = torch.ones(3)
    torch.save({"a.b": one, "c.d": torch.nn.Parameter(one)}, tmp_path / "x.pt")
    found = read_released(tmp_path / "x.pt")
    assert torch.equal(found["a.b"], found["c.d"])
