"""Each data set of the papers is resized by its own protocol's rule, own photos with anti-aliasing."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from support.data_files import noise, write_pets, write_recorded
from tasknorm.data import Cached, Direct, Folder, opened
from tasknorm.data.formats.pixels import bilinear
from tasknorm.data.importing import import_source

SIZE = 12
META_DATASET = ["aircraft", "cu_birds", "dtd", "fungi", "ilsvrc_2012", "mscoco", "traffic_sign", "vgg_flower"]
FIRST = np.array([0, 0, 1]), np.array([0, 1, 1])


def aligned_corners(image: np.ndarray) -> np.ndarray:
    """Meta-Dataset's rule (its decoder.py): bilinear between four pixels, without a filter, corners kept."""
    planes = torch.from_numpy(image.copy()).permute(2, 0, 1)[None].float()
    resized = torch.nn.functional.interpolate(planes, (SIZE, SIZE), mode="bilinear", align_corners=True)
    return (resized[0] + 0.5).to(torch.uint8).numpy()


def by_pillow(filter_: Image.Resampling):
    def resized(image: np.ndarray) -> np.ndarray:
        picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
        return np.asarray(picture.resize((SIZE, SIZE), filter_)).reshape(SIZE, SIZE, -1).transpose(2, 0, 1)

    return resized


nearest, lanczos, triangle = map(
    by_pillow, (Image.Resampling.NEAREST, Image.Resampling.LANCZOS, Image.Resampling.BILINEAR)
)
RULES = {
    "omniglot": nearest, "omniglot_vinyals": nearest, "omniglot_alphabets": nearest, "mini_imagenet": lanczos,
    "mnist": lanczos, "cifar10": lanczos, "cifar100": lanczos, "quickdraw": aligned_corners,
}  # fmt: skip


def check_rule(source, rule, cache: Path) -> None:
    expected = np.stack([rule(source.image(*pair)) for pair in zip(*FIRST, strict=True)])
    np.testing.assert_array_equal(Direct(source, SIZE).batch(*FIRST), expected)
    np.testing.assert_array_equal(Cached(source, SIZE, folder=cache).batch(*FIRST), expected)


@pytest.mark.parametrize("name", RULES)
def test_a_known_data_set_keeps_its_protocols_rule(name, data_folder, tmp_path):
    check_rule(opened(name, data_folder), RULES[name], tmp_path)


@pytest.mark.parametrize("name", [*META_DATASET, "tiny_imagenet"])
def test_images_of_meta_dataset_keep_its_rule_as_folders_archives_and_records(name, tmp_path):
    write_pets(tmp_path / "folders" / name, classes=4, images=3)
    check_rule(opened(name, tmp_path / "folders"), aligned_corners, tmp_path / "cache")
    (tmp_path / "archives").mkdir()
    shutil.make_archive(str(tmp_path / "archives" / f"{name}_64px"), "zip", tmp_path / "folders" / name)
    check_rule(opened(name, tmp_path / "archives"), aligned_corners, tmp_path / "cache")
    import_source(tmp_path / "folders" / name, name, tmp_path / "records", records=True)
    check_rule(opened(name, tmp_path / "records"), aligned_corners, tmp_path / "cache")


def test_own_photos_are_resized_with_anti_aliasing_however_they_come(tmp_path):
    write_pets(tmp_path / "pets", classes=4, images=3)
    shutil.make_archive(str(tmp_path / "zipped"), "zip", tmp_path / "pets")
    import_source(tmp_path / "pets", "animals", tmp_path / "root")
    write_recorded(tmp_path / "root" / "recorded", tmp_path / "pets")
    sources = [
        Folder(tmp_path / "pets"),
        opened(f"folder:{tmp_path / 'pets'}"),
        opened(tmp_path / "zipped.zip"),
        opened("animals", tmp_path / "root"),
        opened("recorded", tmp_path / "root"),
    ]
    for source in sources:
        check_rule(source, triangle, tmp_path / "cache")


def test_a_large_photo_of_fine_texture_comes_out_as_its_mean_tones(tmp_path):
    """Each target pixel stands for 30 x 40 of the photo's; without a filter it would be four of them."""
    tones = np.linspace(60, 190, 84)[:, None] + np.zeros((84, 84))
    texture = noise(0, 84 * 30, 84 * 40) % 128 - 64.0
    photo = (np.kron(tones, np.ones((30, 40))) + texture).clip(0, 255).astype(np.uint8)
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    Image.fromarray(photo).save(tmp_path / "photos" / "cat" / "1.png", compress_level=1)
    source = Folder(tmp_path / "photos", channels=1)
    means = photo.reshape(84, 30, 84, 40).mean((1, 3))

    def rms(found: np.ndarray) -> float:
        return float(np.sqrt(np.square(found.reshape(84, 84) - means).mean()))

    assert rms(Direct(source, 84).batch(np.array([0]), np.array([0]))) < 2
    assert rms(bilinear(source.image(0, 0), 84)) > 15  # what it is about


def test_own_photos_are_upright_and_the_papers_images_as_they_lie(tmp_path):
    exif = Image.Exif()
    exif[274] = 6
    file = io.BytesIO()
    Image.new("RGB", (20, 10)).save(file, "JPEG", exif=exif)
    for name in ("photos", "cu_birds"):
        (tmp_path / name / "cat").mkdir(parents=True)
        (tmp_path / name / "cat" / "1.jpg").write_bytes(file.getvalue())
    assert opened(tmp_path / "photos").image(0, 0).shape == (20, 10, 3)
    assert opened(tmp_path / "cu_birds").image(0, 0).shape == (10, 20, 3)


@pytest.mark.parametrize("change", ["format", "rule"])
def test_a_cache_of_another_rule_is_not_used(tmp_path, change):
    write_pets(tmp_path / "pets", classes=4, images=3)
    cache = tmp_path / "cache"
    Cached(Folder(tmp_path / "pets", resize=bilinear), SIZE, folder=cache)
    (index,) = cache.glob("*.json")
    content = json.loads(index.read_text())
    if change == "format":  # as it was before own photos were resized with anti-aliasing
        Cached(Folder(tmp_path / "pets"), SIZE, folder=cache)
        (new,) = set(cache.glob("*.json")) - {index}
        new.write_text(json.dumps(content | {"format": 1}))
    check_rule(Folder(tmp_path / "pets"), triangle, cache)
    check_rule(Folder(tmp_path / "pets", resize=bilinear), aligned_corners, cache)
