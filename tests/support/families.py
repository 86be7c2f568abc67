"""Small networks of five families, by the names that users give them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tasknorm.nets import Backbone, backbone

FAMILIES = ("resnet", "regnet", "mobilenet_v2", "efficientnet-lite", "convnext")
SHAPE = (3, 64, 64)


def named(family: str, folder: Path) -> str:
    """The name of a small network of a family; one of transformers is written to the folder."""
    if family == "efficientnet-lite":
        return "tasknorm.nets:efficientnet_lite0"
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    stages = {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1]}
    config = {
        "resnet": lambda: transformers.ResNetConfig(**stages, layer_type="basic"),
        "regnet": lambda: transformers.RegNetConfig(**stages, groups_width=8),
        "mobilenet_v2": lambda: transformers.MobileNetV2Config(depth_multiplier=0.25),
        "convnext": lambda: transformers.ConvNextConfig(hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1]),
    }[family]()
    torch.manual_seed(0)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    return f"hf:{folder}"


def trained(net: Backbone) -> Backbone:
    """With running moments of its own, as a pretrained network has them."""
    torch.manual_seed(1)
    with torch.no_grad():
        for _ in range(3):
            net.train()(torch.rand(8, *net.image_shape))
    return net.eval()


def pretrained(name: str, size: int, file: Path) -> Path:
    """Write weights of a network with running moments of its own: `file`."""
    torch.manual_seed(2)
    torch.save(trained(backbone(name, (3, size, size))).net.state_dict(), file)
    return file
