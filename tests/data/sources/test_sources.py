"""What holds for every source: its spec is true, its images have one form, cache and episodes follow it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tasknorm.data import SOURCES, Cached, Direct, Episodes, FixedSampler, opened
from tasknorm.data.check import bad_images
from tasknorm.data.sources.source import images_by_class

NAMES = {name: name for name in SOURCES} | {"folder": "pets", "records": "recorded"}
SIZES = {
    "omniglot": (1100, 100, 423),
    "omniglot_vinyals": (4112, 688, 1692),
    "omniglot_alphabets": (883, 81, 659),
    "mini_imagenet": (6, 5, 5),
    "mnist": (0, 0, 10),
    "cifar10": (0, 0, 10),
    "cifar100": (0, 0, 100),
    "quickdraw": (5, 1, 1),
    "folder": (10, 5, 5),
    "records": (10, 5, 5),
    "glyphs": (612, 89, 210),
}
FEW = [name for name in SOURCES if name != "omniglot_vinyals"]  # the same images as omniglot, four times


@pytest.fixture(params=list(SOURCES))
def source(request, data_folder):
    return opened(NAMES[request.param], data_folder)


@pytest.mark.parametrize("name", list(SOURCES))
def test_has_as_many_classes_in_each_split_as_its_data_set(name, data_folder):
    splits = opened(NAMES[name], data_folder).spec.splits
    assert tuple(len(splits[split].classes) for split in ("train", "valid", "test")) == SIZES[name]


def test_numbers_its_classes_through_train_valid_and_test(source):
    splits = source.spec.splits
    ids = [class_id for split in ("train", "valid", "test") for class_id in splits[split].classes]
    assert ids == list(range(len(source.spec.class_names)))
    assert len(set(source.spec.class_names)) == len(ids)


def test_images_are_bytes_of_its_number_of_channels(source):
    counts = images_by_class(source.spec)
    for class_id in (0, len(counts) - 1):
        for number in (0, counts[class_id] - 1):
            image = source.image(class_id, number)
            assert image.dtype == np.uint8
            assert image.ndim == 3
            assert image.shape[2] == source.channels in (1, 3)
            small = source.resize(image, 7)
            assert small.shape == (7, 7, source.channels)
            assert small.dtype == np.uint8


def test_names_where_an_image_comes_from(source):
    assert source.where(0, 0) != source.where(0, 1)


@pytest.mark.parametrize("name", FEW)
def test_cache_and_direct_reading_give_the_same_images(name, data_folder):
    source = opened(NAMES[name], data_folder)
    cached, direct = Cached(source, 12), Direct(source, 12)
    counts = images_by_class(source.spec)
    classes = np.repeat([0, len(counts) - 1, 1], 2)
    numbers = np.array([0, 1, 1, 0, counts[1] - 1, 0])
    batch = cached.batch(classes, numbers)
    assert batch.shape == (6, source.channels, 12, 12)
    np.testing.assert_array_equal(batch, direct.batch(classes, numbers))
    image = source.resize(source.image(0, 1), 12).transpose(2, 0, 1)
    np.testing.assert_array_equal(batch[1], image)


@pytest.mark.parametrize("name", FEW)
def test_gives_episodes(name, data_folder):
    source = opened(NAMES[name], data_folder)
    images = Cached(source, 12, channels=3)
    split = next(s for s in ("train", "test") if len(source.spec.splits[s].classes) >= 5)
    episode = Episodes(images, FixedSampler(source.spec.splits[split], way=5, shot=1, targets=1))[0]
    assert episode.context_x.shape == episode.target_x.shape == (5, 3, 12, 12)
    assert episode.context_y.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["mini_imagenet", "mnist", "cifar10", "cifar100", "quickdraw", "folder", "records"])
def test_whole_files_have_no_bad_images(name, data_folder):
    assert list(bad_images(opened(NAMES[name], data_folder))) == []


def test_a_path_is_opened_by_what_it_holds(data_folder):
    assert opened(data_folder / "recorded").spec.name == "pets"
    assert len(opened(str(data_folder / "pets")).spec.splits["train"].classes) == 10


def test_a_source_is_accepted_as_it_is(data_folder):
    source = opened("pets", data_folder)
    assert opened(source) is source
    assert Path(source.tree.path) == data_folder / "pets"
