"""Files of predictors whose networks are not ours: a stranger's file imports nothing and calls nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from safetensors import safe_open

import tasknorm
from tasknorm.data import Preparation
from tasknorm.errors import WeightsError
from tasknorm.learners import Predictor, ProtoNets
from tasknorm.learners.about import About
from tasknorm.nets import Backbone, net_make

SIZE = 16


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A predictor with a small ResNet of transformers."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 4], depths=[1, 1], layer_type="basic")
    net = Backbone(transformers.AutoModel.from_config(config), (3, SIZE, SIZE), "hf:/home/somebody/network")
    learner = ProtoNets(tasknorm.convert(net, "TaskNorm-r", start="preserve", running="fixed"), temperature=True)
    context = {name: torch.randint(0, 256, (2, 3, SIZE, SIZE), dtype=torch.uint8) for name in ("cat", "dog")}
    learner.adapt_to(context, Preparation(size=SIZE, channels=3)).save(tmp_path / "predictor.safetensors")
    return tmp_path / "predictor.safetensors"


def rewritten(file: Path, net: dict[str, Any]) -> None:
    """Let the file say something else about its net, and mend its checksum."""
    with safe_open(file, "pt") as opened:
        said = json.loads(opened.metadata()["about"])
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    said["net"] = said["net"] | net
    try:
        text = About.model_validate_json(json.dumps(said)).signed(tensors).model_dump_json()
    except ValueError:  # the schema alone refuses it
        text = json.dumps(said)
    file.write_bytes(safetensors.torch.save(tensors, {"about": text}))


def test_it_is_whole_without_the_folder_and_tells_nothing_of_it(file: Path) -> None:
    predictor = Predictor.load(file)
    assert b"somebody" not in file.read_bytes()
    norm = next(module for module in predictor.net.modules() if isinstance(module, tasknorm.Norm))
    assert (norm.label, norm.fixed) == ("TaskNorm-r", True)
    assert net_make(predictor.net).name == "hf:resnet"
    before = predictor(torch.rand(2, 3, SIZE, SIZE))
    predictor.add("eel", torch.randint(0, 256, (1, 3, SIZE, SIZE), dtype=torch.uint8))
    assert (before.shape[1], len(predictor.names)) == (2, 3)
    assert predictor.adapted.kept.learner.temperature is not None


def config(file: Path, **changes: Any) -> dict[str, Any]:
    with safe_open(file, "pt") as opened:
        return {"config": json.loads(opened.metadata()["about"])["net"]["config"] | changes}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attn_implementation": "somebody/kernel"}, "no network 'resnet' of transformers is made by"),
        ({"auto_map": {"AutoModel": "x.Y"}}, "damaged"),
        ({"depths": [10**4] * 2}, "at most 1000 blocks"),
        ({"depths": [10**9]}, "damaged"),
        ({"depths": [1, 2]}, "does not fit"),
        ({"embedding_size": 65_000}, "does not fit"),
        ({"hidden_act": "__import__"}, "no such net can be made"),
        ({"layer_type": "none"}, "no such net can be made"),
        ({"num_channels": 1}, "no such net can be made"),
    ],
)
def test_a_config_is_its_shape_and_no_more(file: Path, changes: dict[str, Any], said: str) -> None:
    rewritten(file, config(file, **changes))
    with pytest.raises(WeightsError, match=said) as error:
        Predictor.load(file)
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("net", "said"),
    [
        ({"name": "os:abort", "config": None}, "holds the network 'os:abort', and a file alone does not"),
        ({"name": "tasknorm.nets:nothing", "config": None}, "a file alone does not"),
        ({"name": "antigravity:net", "config": None}, "a file alone does not"),
        ({"name": "hf:/etc", "config": None}, "a file alone does not"),
        ({"name": "hf:vit"}, "no network 'vit' of transformers"),
        ({"name": "os:abort"}, "no network 'os:abort' of transformers"),
        ({"name": "tasknorm.nets:efficientnet_lite0", "config": None}, "does not fit|damaged"),
    ],
)
def test_names_outside_of_the_list_are_not_called(file: Path, net: dict[str, Any], said: str) -> None:
    rewritten(file, net)
    with pytest.raises(WeightsError, match=said):
        Predictor.load(file)
