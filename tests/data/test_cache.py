"""The cache: right, shared, renewed when its input changes, and never half there."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from support.data_files import encoded, noise, write_pets
from tasknorm.data import Cached, Direct, Folder, damaged_caches
from tasknorm.data.cache import SAMPLED
from tasknorm.data.formats.blocks import BLOCK
from tasknorm.data.formats.pixels import crop
from tasknorm.data.places import cache_folder
from tasknorm.errors import DataError

ONE = np.array([0]), np.array([0])


@pytest.fixture
def pets(tmp_path):
    write_pets(tmp_path / "pets", classes=4, images=3)
    return tmp_path / "pets"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def files(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_is_one_npy_and_one_json_that_anyone_can_read(pets, folder):
    Cached(Folder(pets), 8, folder=folder)
    array, index = files(folder)
    content = json.loads((folder / index).read_text())
    assert (content["images"], content["shape"]) == (array, [12, 3, 8, 8])
    assert np.load(folder / array).dtype == np.uint8


def test_sizes_and_sources_do_not_share_one(pets, folder, tmp_path):
    shutil.copytree(pets, tmp_path / "elsewhere" / "pets")
    for path, size in ((pets, 8), (pets, 9), (tmp_path / "elsewhere" / "pets", 8)):
        Cached(Folder(path), size, folder=folder)
    assert len(files(folder)) == 6


class Unread(Folder):
    """A source whose images must not be read again."""

    def image(self, class_id, number):
        raise AssertionError("its cache is there")


def test_resizings_do_not_share_one_and_the_sources_own_rule_has_one_name(pets, folder):
    every = np.array([0, 0, 0]), np.arange(3)
    own = Cached(Folder(pets), 8, folder=folder)
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    cut = Cached(Folder(pets), 8, folder=folder, resize="crop")
    assert len(files(folder)) == 4
    assert {name: (folder / name).read_bytes() for name in before} == before
    expected = [crop(Folder(pets).image(0, number), 8).transpose(2, 0, 1) for number in range(3)]
    np.testing.assert_array_equal(cut.batch(*every), expected)
    np.testing.assert_array_equal(Direct(Folder(pets), 8, resize="crop").batch(*every), expected)
    assert not np.array_equal(cut.batch(*every), own.batch(*every))
    for resize in (None, "antialiased", "crop"):
        Cached(Unread(pets), 8, folder=folder, resize=resize)
    assert len(files(folder)) == 4
    for name in files(folder)[::2]:
        content = bytearray((folder / name).read_bytes())
        content[-1] ^= 1
        (folder / name).write_bytes(content)
    assert len(list(damaged_caches(Folder(pets), folder))) == 2
    with pytest.raises(DataError, match=r"resize must be one of antialiased, bilinear, crop, .* got 'magic'"):
        Cached(Folder(pets), 8, folder=folder, resize="magic")


def test_a_cache_of_an_earlier_version_is_still_used(pets, folder):
    """It has the name that it always had: of the source's place, channels and rule."""
    Cached(Folder(pets), 8, folder=folder)
    place = hashlib.sha256(repr((str(pets.resolve()), 3, "antialiased")).encode()).hexdigest()[:12]
    assert files(folder)[1] == f"pets-8px-{place}.json"
    Cached(Unread(pets), 8, folder=folder)


@pytest.mark.parametrize("change", ["edited", "added", "splits"])
def test_is_renewed_when_its_input_changes_and_the_old_one_removed(pets, folder, change):
    old = Cached(Folder(pets), 8, folder=folder)
    before, names = old.batch(*ONE), files(folder)
    splits = None
    if change == "edited":
        for image in pets.glob("*/0.png"):
            image.write_bytes(encoded(noise(77, 8, 8, 3)))
    elif change == "added":
        for name in Folder(pets).spec.class_names:
            (pets / name / "-.png").write_bytes(encoded(noise(77, 8, 8, 3)))
    else:
        splits = {"test": sorted(Folder(pets).spec.class_names)}
    new = Cached(Folder(pets, splits), 8, folder=folder)
    assert len(files(folder)) == 2
    assert files(folder) != names
    if change != "splits":
        np.testing.assert_array_equal(new.batch(*ONE)[0], noise(77, 8, 8, 3).transpose(2, 0, 1))
    np.testing.assert_array_equal(old.batch(*ONE), before)  # whoever had the old one open keeps it


def test_a_bad_image_leaves_the_old_cache_whole(pets, folder):
    Cached(Folder(pets), 8, folder=folder)
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    (pets / "pet01" / "2.png").write_bytes(b"cut")
    with pytest.raises(DataError, match=r"pet01/2.png: the image does not decode"):
        Cached(Folder(pets), 8, folder=folder)
    assert {name: (folder / name).read_bytes() for name in files(folder)} == before


def test_a_full_disk_is_an_error_and_leaves_the_old_cache_whole(pets, folder):
    """In a process whose files may not grow beyond 2000 bytes, which is how a full disk looks to it."""
    Cached(Folder(pets), 8, folder=folder)
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    os.utime(pets / "pet01" / "2.png")
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from tasknorm.data import Cached, DataError, Folder\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "try:\n"
        "    Cached(Folder(sys.argv[1]), 8, folder=Path(sys.argv[2]))\n"
        "except DataError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, pets, folder], capture_output=True, text=True, check=True, timeout=60
    )
    assert "cache of pets could not be written there" in done.stdout
    assert "free space, or set TASKNORM_CACHE" in done.stdout
    assert {name: (folder / name).read_bytes() for name in files(folder)} == before


class Slow(Folder):
    """Tells when it began, then takes for ever."""

    def image(self, class_id, number):
        if class_id == 2:
            (self.tree.path.parent / "began").write_text("")
            time.sleep(60)
        return super().image(class_id, number)


def _build(pets, folder):
    Cached(Slow(pets), 8, folder=folder)


def test_a_killed_build_leaves_the_old_cache_whole_and_is_cleaned_up_by_the_next(pets, folder, tmp_path):
    Cached(Folder(pets), 8, folder=folder)
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    os.utime(pets / "pet01" / "2.png")
    child = multiprocessing.get_context("fork").Process(target=_build, args=(pets, folder))
    child.start()
    while not (tmp_path / "began").exists():
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    parts = [path for path in folder.iterdir() if path.suffix == ".part"]
    assert len(parts) == 1  # what it had written is never used ...
    assert {name: (folder / name).read_bytes() for name in before} == before
    Cached(Folder(pets), 8, folder=folder)
    assert len(files(folder)) == 2  # ... and goes


def _open_many(pets, folder, results):
    results.put(Cached(Folder(pets), 8, folder=Path(folder)).batch(*ONE).tobytes())


def test_several_processes_at_once_get_the_same_cache(pets, folder):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [context.Process(target=_open_many, args=(pets, folder, results)) for _ in range(4)]
    for child in children:
        child.start()
    contents = {results.get(timeout=60) for _ in children}
    for child in children:
        child.join()
    assert len(contents) == 1
    assert len(files(folder)) == 2


@pytest.mark.parametrize("damage", ["truncate", "index", "missing", "type"])
def test_a_damaged_cache_is_made_anew(pets, folder, damage):
    whole = Cached(Folder(pets), 8, folder=folder).batch(*ONE)
    array, index = (folder / name for name in files(folder))
    if damage == "truncate":
        array.write_bytes(array.read_bytes()[:500])
    elif damage == "index":
        index.write_text('{"format": 1, "siz')
    elif damage == "type":
        index.write_text("[]")
    else:
        array.unlink()
    np.testing.assert_array_equal(Cached(Folder(pets), 8, folder=folder).batch(*ONE), whole)


def test_repeats_grey_channels_but_drops_no_colour(pets, folder):
    grey = Folder(pets, channels=1)
    batch = Cached(grey, 8, channels=3, folder=folder).batch(*ONE)
    assert batch.shape == (1, 3, 8, 8)
    assert (batch[:, 0] == batch[:, 2]).all()
    with pytest.raises(DataError, match="have 3 channels, got channels=1"):
        Cached(Folder(pets), 8, channels=1, folder=folder).batch(*ONE)


def test_a_name_cannot_leave_the_folder_of_caches(pets, folder):
    Cached(Folder(pets, name="../../evil [a]"), 8, folder=folder)
    assert len(files(folder)) == 2
    assert all(name.startswith("______evil__a_-8px") for name in files(folder))


def test_an_empty_source_has_no_cache(pets, folder):
    with pytest.raises(DataError, match="there are no images to cache"):
        Cached(Folder(pets, {"train": []}), 8, folder=folder)


def test_the_variable_says_where_caches_are(monkeypatch, tmp_path):
    assert cache_folder() == Path(os.environ["TASKNORM_CACHE"])
    monkeypatch.delenv("TASKNORM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert cache_folder() == tmp_path / "tasknorm"


def test_a_flipped_bit_is_noticed_when_a_small_cache_is_opened(pets, folder):
    whole = Cached(Folder(pets), 8, folder=folder).batch(*ONE)
    array = folder / files(folder)[0]
    content = bytearray(array.read_bytes())
    content[-1] ^= 1
    array.write_bytes(content)
    assert [why.split(": ")[1][:21] for why in damaged_caches(Folder(pets), folder)] == ["the checksum is wrong"]
    np.testing.assert_array_equal(Cached(Folder(pets), 8, folder=folder).batch(*ONE), whole)
    assert not list(damaged_caches(Folder(pets), folder))
    assert array.name not in files(folder)  # it was made anew


def test_a_flipped_bit_of_a_large_cache_is_found_by_the_check(pets, folder, monkeypatch):
    monkeypatch.setattr("tasknorm.data.cache.BLOCK", 64)
    monkeypatch.setattr("tasknorm.data.formats.blocks.BLOCK", 64)
    monkeypatch.setattr("tasknorm.data.cache.SAMPLED", 2)
    Cached(Folder(pets), 8, folder=folder)
    array = folder / files(folder)[0]
    content = bytearray(array.read_bytes())
    content[128 + 64 * 5] ^= 128
    array.write_bytes(content)
    (why,) = damaged_caches(Folder(pets), folder)
    assert f"{array}, image data from byte 320: the checksum is wrong" in why
    assert f"remove {folder / files(folder)[1]}, and the cache is made anew" in why
    opened = {Cached(Folder(pets), 8, folder=folder).batch(*ONE).tobytes() for _ in range(99)}
    assert len(opened) == 1
    assert not list(damaged_caches(Folder(pets), folder))  # one of 99 openings saw it, with two of 36 blocks each


def test_checksums_cover_every_byte(pets, folder):
    Cached(Folder(pets), 200, folder=folder)
    array, index = (folder / name for name in files(folder))
    checksums = json.loads(index.read_text())["checksums"]
    data = array.read_bytes()[-12 * 3 * 200 * 200 :]
    assert checksums == [zlib.crc32(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]
    assert 1 < len(checksums) <= SAMPLED


@pytest.mark.parametrize(
    ("made", "got"),
    [
        (lambda image: image / 255, r"float64 of shape \(\d+, \d+, 3\)"),
        (lambda image: image[:, :, 0], r"uint8 of shape \(\d+, \d+\)"),
        (lambda image: image[:, :, :1], r"uint8 of shape \(\d+, \d+, 1\)"),
    ],
    ids=["floats", "two axes", "one channel"],
)
def test_a_source_that_gives_no_bytes_is_refused(made, got, pets, folder):
    class Changed(Folder):
        def image(self, class_id, number):
            return made(super().image(class_id, number))

    rule = rf"an image must be uint8 of shape \(height, width, 3\), got {got}; convert it in Changed\.image"
    with pytest.raises(TypeError, match=rule):
        Cached(Changed(pets), 8, folder=folder)
    with pytest.raises(TypeError, match=rule):
        Direct(Changed(pets), 8).batch(*ONE)
    assert not files(folder)
