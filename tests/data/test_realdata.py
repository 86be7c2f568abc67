"""The real data sets: every one is built, counted and drawn from."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from tasknorm.data import (
    Cached,
    Direct,
    Episodes,
    FixedSampler,
    Mixture,
    VariableSampler,
    opened,
)
from tasknorm.data.importing import import_source

SIZE = 32
pytestmark = pytest.mark.realdata

# Classes in train, valid and test, images, and side of the originals.
DATA_SETS = {
    "omniglot": ((1100, 100, 423), 32460, 105),
    "omniglot_vinyals": ((4112, 688, 1692), 129840, 105),
    "omniglot_alphabets": ((883, 81, 659), 32460, 105),
    "mini_imagenet": ((64, 16, 20), 9040, 84),
    "tiny_imagenet": ((160, 13, 27), 10000, 64),
    "cu_birds": ((140, 30, 30), 5000, 64),
    "vgg_flower": ((71, 15, 16), 4080, 64),
    "quickdraw": ((241, 52, 52), 34500, 28),
    "dtd": ((0, 0, 10), 1200, 64),
    "traffic_sign": ((0, 0, 43), 2580, 64),
    "mnist": ((0, 0, 10), 10000, 28),
    "cifar10": ((0, 0, 10), 2000, 32),
    "cifar100": ((0, 0, 100), 5000, 32),
}
META_TRAIN = ["tiny_imagenet", "omniglot_alphabets", "cu_birds", "quickdraw", "vgg_flower"]
HELD_OUT = ["traffic_sign", "dtd", "mnist", "cifar10", "cifar100"]


@pytest.mark.parametrize("name", DATA_SETS)
def test_is_complete_and_gives_episodes(name, data_root):
    classes, images, side = DATA_SETS[name]
    source = opened(name, data_root)
    splits = source.spec.splits
    assert tuple(len(splits[split].classes) for split in ("train", "valid", "test")) == classes
    assert sum(sum(split.images) for split in splits.values()) == images
    assert source.image(0, 0).shape == (side, side, source.channels)
    reader = Direct if name in ("omniglot", "omniglot_vinyals") else Cached  # both are omniglot_alphabets again
    episodes = Episodes(reader(source, SIZE), FixedSampler(splits["test"], way=5, shot=1, targets=15))
    for episode in islice(episodes, 3):
        assert episode.context_x.shape == (5, source.channels, SIZE, SIZE)
        assert len(torch.unique(episode.target_x.flatten(1), dim=0)) > 70  # 75 images, hardly any the same


@pytest.mark.parametrize(("names", "split"), [(META_TRAIN, "train"), (META_TRAIN + HELD_OUT, "test")])
def test_the_small_meta_dataset_is_one_mixture(names, split, data_root):
    images = [Cached(opened(name, data_root), SIZE, channels=3) for name in names]
    caps = (40, 400) if split == "train" else (50, 500)
    sampler = Mixture([VariableSampler(source.spec.splits[split], *caps) for source in images])
    sources = set()
    for index, episode in enumerate(islice(Episodes(images, sampler), 60)):
        sources.add(sampler.draw(0, index).source)
        assert episode.context_x.shape[1:] == (3, SIZE, SIZE)
        assert 5 <= episode.way <= caps[0]
        assert len(episode.context_x) <= caps[1]
    assert sources == set(range(len(names)))


def test_birds_become_records_and_are_birds_still(data_root, tmp_path):
    birds = opened("cu_birds", data_root)
    imported = import_source(
        data_root / "cu_birds_64px.zip", "cu_birds", tmp_path, data_root / "splits.json", records=True
    )
    assert imported.spec.class_names == birds.spec.class_names
    difference = imported.image(17, 3).astype(int) - birds.image(17, 3)
    assert abs(difference).mean() < 3
