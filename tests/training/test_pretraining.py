"""Pretraining: learns, goes on where it stopped, and serves every norm."""

from __future__ import annotations

import json

import pytest
import torch

from support.data_files import write_pets
from support.runs import run
from tasknorm import NORMS, nets
from tasknorm.errors import SettingsError, WeightsError
from tasknorm.runs import settled
from tasknorm.settings import PretrainSettings, Settings
from tasknorm.training.pretraining import load_pretrained, pretrain


@pytest.fixture
def settings(tmp_path, monkeypatch):
    write_pets(tmp_path / "pets", classes=8, images=6)
    monkeypatch.setenv("TASKNORM_CACHE", str(tmp_path / "cache"))
    return PretrainSettings.of(
        {
            "source": str(tmp_path / "pets"),
            "net": "resnet-small",
            "image_size": 16,
            "batch": 10,
            "epochs": 3,
            "learning_rate": 0.02,
            "crop": 1,
            "device": "cpu",
        }
    )


def test_it_learns_goes_on_and_loads_into_every_norm(settings, tmp_path, capsys):
    record = pretrain(settings, tmp_path / "through")
    assert capsys.readouterr().err.count("epoch ") == len(record["epochs"]) == 3
    assert record["epochs"][-1]["loss"] < record["epochs"][0]["loss"]
    pretrain(settings.model_copy(update={"epochs": 2}), tmp_path / "twice")
    (tmp_path / "twice" / "extractor.safetensors").unlink()
    pretrain(settings, tmp_path / "twice")
    path = tmp_path / "through" / "extractor.safetensors"
    assert path.read_bytes() == (tmp_path / "twice" / "extractor.safetensors").read_bytes()
    for norm in NORMS.values():
        net = nets.resnet_small(norm, film=True, image_shape=(3, 16, 16))
        before = net.stem.weight.clone()
        load_pretrained(net, path)
        assert not torch.equal(net.stem.weight, before)
        assert not torch.equal(net.norm.running_mean, torch.zeros_like(net.norm.running_mean))
        assert net.norm.num_batches_tracked == 0  # or BRN's schedule would be over before it begins
    with pytest.raises(WeightsError, match="do not fit the net Conv4"):
        load_pretrained(nets.protonets_conv4(NORMS["LN"]), path)


def test_photos_can_be_cut_to_squares(settings, tmp_path):
    short = settings.model_copy(update={"epochs": 1, "scale": "centred"})
    stretched, cut = (pretrain(short.model_copy(update={"resize": r}), tmp_path / str(r)) for r in (None, "crop"))
    assert cut["settings"]["resize"] == "crop"
    assert cut["epochs"] != stretched["epochs"]


def test_what_goes_on_keeps_its_settings(settings, tmp_path):
    (tmp_path / "run").mkdir()
    assert settled(PretrainSettings, {"epochs": "2"}, tmp_path / "run", False).epochs == 2
    (tmp_path / "run" / "config.json").write_text(json.dumps(settings.values()))
    assert settled(PretrainSettings, {"epochs": "7"}, tmp_path / "run", True) == settings.model_copy(
        update={"epochs": 7}
    )
    with pytest.raises(SettingsError, match=r"batch=12 contradicts the run in .*, which has batch=10"):
        settled(PretrainSettings, {"batch": "12"}, tmp_path / "run", True)
    with pytest.raises(SettingsError, match=r"batch=12 contradicts the run in .*, which has batch=10"):
        run(settings.model_copy(update={"batch": 12}), tmp_path / "run")
    with pytest.raises(SettingsError, match="no training to resume in this folder, it holds another kind of run"):
        settled(Settings, {}, tmp_path / "run", True)
    with pytest.raises(SettingsError, match="this folder is not empty; add --resume to continue its pretraining"):
        settled(PretrainSettings, {}, tmp_path / "run", False)


def test_errors_name_the_setting():
    with pytest.raises(SettingsError, match=r"unknown setting .epoch.; did you mean .epochs."):
        PretrainSettings.of({"epoch": 3})
    with pytest.raises(SettingsError, match=r"net .*'conv4'"):
        PretrainSettings.of({"net": "conv4"})
