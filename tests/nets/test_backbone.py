"""Networks of others by name: five families convert, run in both phases, and take FiLM layers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

import tasknorm
from support.families import FAMILIES, SHAPE, named, trained
from tasknorm import NORMS, nets
from tasknorm.errors import SettingsError, WeightsError
from tasknorm.learners import CNAPs
from tasknorm.nets import Backbone, FiLM, backbone, load_backbone, with_film


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Backbone]:
    """A small network of a family, by the name that a user would give."""
    return lambda family: backbone(named(family, tmp_path_factory.mktemp(family)), SHAPE)


@pytest.mark.parametrize("family", FAMILIES[:-1])
def test_families_with_batch_norm_convert_and_run_in_both_phases(family: str, made) -> None:
    net = trained(made(family))
    assert net(torch.rand(2, *SHAPE)).shape == (2, net.features)
    x = torch.rand(9, *SHAPE)
    for label in ("TaskNorm-r", "TaskNorm-I", "CBN"):
        new = tasknorm.convert(net, label, start="paper")
        with torch.no_grad(), tasknorm.joint(new, context_size=6):
            together = new(x)[6:]
        with torch.no_grad(), tasknorm.context(new):
            new(x[:6])
        with torch.no_grad(), tasknorm.target(new):
            torch.testing.assert_close(new(x[6:]), together, rtol=1e-3, atol=1e-4)


def test_a_network_without_batch_norm_is_told_so(made) -> None:
    with pytest.warns(UserWarning, match="nothing to convert in Backbone"):
        tasknorm.convert(made("convnext"), "TaskNorm-I")
    with pytest.raises(ValueError, match=r"FiLM goes behind batch norms .* ConvNextModel has none"):
        with_film(made("convnext").net)


@pytest.mark.parametrize("family", FAMILIES[:-1])
def test_film_behind_every_norm_changes_nothing_until_it_is_set(family: str, made) -> None:
    net = trained(made(family))
    x, y = torch.rand(6, *SHAPE), torch.arange(6) % 2
    before = net(x)
    norms = sum(isinstance(module, nn.BatchNorm2d) for module in net.modules())
    filmed = with_film(net)
    assert sum(isinstance(module, FiLM) for module in filmed.modules()) == norms
    torch.testing.assert_close(filmed(x), before)
    learner = CNAPs(tasknorm.convert(filmed, "TaskNorm-r", start="preserve"), NORMS["TaskNorm-r"])
    losses, _ = learner.learn([tasknorm.Episode(x, y, x, y)])
    losses.mean().backward()
    assert all(p.grad is not None for p in learner.film_generator.parameters())


def test_weights_come_from_files_and_must_fit(tmp_path: Path) -> None:
    net = backbone("tasknorm.nets:efficientnet_lite0", SHAPE)
    other = backbone("tasknorm.nets:efficientnet_lite0", SHAPE)
    weights = {name: tensor.clone() for name, tensor in other.net.state_dict().items()}
    safetensors.torch.save_file(weights, tmp_path / "net.safetensors")
    torch.save(weights, tmp_path / "net.pth")
    torch.save({"state_dict": weights}, tmp_path / "nested.pth")
    x = torch.rand(1, *SHAPE)
    for name in ("net.safetensors", "net.pth", "nested.pth"):
        fresh = backbone("tasknorm.nets:efficientnet_lite0", SHAPE)
        load_backbone(fresh, tmp_path / name)
        torch.testing.assert_close(fresh.eval()(x), other.eval()(x))
    torch.save(other, tmp_path / "pickled.pth")
    (tmp_path / "garbage.pth").write_bytes(b"no weights")
    (tmp_path / "garbage.safetensors").write_bytes(b"no weights")
    torch.save([1, 2], tmp_path / "list.pth")
    torch.save({"a": torch.zeros(1)}, tmp_path / "other.pth")
    for name in ("pickled.pth", "garbage.pth", "garbage.safetensors", "list.pth", "other.pth", "missing.pth"):
        with pytest.raises(WeightsError, match=name):
            load_backbone(net, tmp_path / name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.at_all:net", "no function 'net' in a module 'nowhere.at_all'"),
        ("tasknorm.nets:nothing", "no function 'nothing' in a module 'tasknorm.nets'"),
        ("tasknorm.nets:resnet18", "must make a network without arguments"),
        ("builtins:dict", "must return a torch module, got dict"),
        ("hf:nowhere", "transformers"),
    ],
)
def test_wrong_names_get_a_sentence(name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SettingsError, match=said):
        backbone(name, SHAPE)


def test_a_module_of_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_nets.py").write_text(
        "from torch import nn\ndef maps(): return nn.Conv2d(3, 7, 3)\ndef tokens(): return nn.Flatten(2)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert backbone("my_nets:maps", SHAPE).features == 7
    with pytest.raises(SettingsError, match=r"does not take images of shape \(1, 64, 64\)"):
        backbone("my_nets:maps", (1, 64, 64))
    assert nets.backbone("my_nets:tokens", SHAPE).features == 64 * 64


def test_a_network_that_looks_for_what_is_not_there_is_refused() -> None:
    class FifthChannel(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, 4]

    with pytest.raises(SettingsError, match="FifthChannel does not take images of shape"):
        Backbone(FifthChannel(), SHAPE)
