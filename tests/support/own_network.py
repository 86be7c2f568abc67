"""A pretrained network of one's own, which a function of a module makes, photos for it, and a tuning of a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

MINE = "my_networks:small"
SIZE = 32
SMALL = {
    "image_size": SIZE,
    "iterations": 3,
    "validate_every": 2,
    "validation_tasks": 3,
    "test_tasks": 3,
    "way": 3,
    "shot": 2,
    "targets": 2,
    "train_targets": 2,
    "checkpoint_every": 1,
    "device": "cpu",
}
NET = """
import torch
from torch import nn

def small():
    torch.manual_seed(3)
    conv = [nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU()]
    net = nn.Sequential(*conv)
    with torch.no_grad():
        for _ in range(20):
            net(torch.rand(16, 3, 32, 32) * 2 - 1)
    return net

def logits_by_name():
    class Named(nn.Module):
        def forward(self, x):
            return {"logits": x.mean((2, 3))}
    return Named()

def with_arguments(classes):
    return nn.Linear(classes, classes)

def bare():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
"""


def write_place(folder: Path, classes: int = 24) -> None:
    """A folder `photos` with colours as classes, and the module `my_networks`."""
    for number in range(classes):
        write_colour(folder / "photos" / f"class {number:02}", number)
    (folder / "my_networks.py").write_text(NET)


def write_colour(folder: Path, number: int, images: int = 6) -> None:
    """Noisy images of one colour, which any network tells from the other colours."""
    folder.mkdir(parents=True)
    colour = np.array([number % 3, number // 3 % 3, number // 9]) * 80 + 40
    for image in range(images):
        noise = np.random.default_rng([number, image]).normal(0, 5, (SIZE, SIZE, 3))
        Image.fromarray((colour + noise).clip(0, 255).astype(np.uint8)).save(folder / f"{image}.png")
