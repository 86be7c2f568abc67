"""A folder as people have them: what is an image is read, what is none is passed over, what is broken is named."""

from __future__ import annotations

import os
import struct
import sys

import numpy as np
import pytest
from PIL import Image

from support.data_files import encoded, noise
from tasknorm.data import Cached, DataError, Direct, Folder
from tasknorm.data.check import bad_images
from tasknorm.data.usable import usable

PNG = encoded(noise(0, 12, 12, 3))
GOOD = {
    "wrong extension.jpg": PNG,
    "UPPER.JPG": encoded(noise(1, 12, 12, 3), "JPEG"),
    "ünïcödé 猫.png": PNG,
    "new\nline.png": PNG,
    "tab\t'quote\".png": PNG,
    "deep.png": encoded(noise(2, 12, 12).astype(np.uint16) * 257),
    "clear.png": encoded(noise(3, 12, 12, 4)),
    "camera.jfif": encoded(noise(4, 12, 12, 3), "JPEG"),
}
NO_IMAGES = {
    ".hidden.jpg": b"x",
    "._UPPER.JPG": b"x",
    ".DS_Store": b"x",
    "Thumbs.db": b"x",
    "desktop.ini": b"x",
    "notes.txt": b"x",
    "labels.csv": b"x",
}
BAD = {
    "empty.jpg": (b"", "the file is empty"),
    "text.jpg": (b"<html>404 not found</html>", "its first bytes are b'<html>40'"),
    "cut.png": (PNG[:100], "does not decode"),
    "phone.HEIC": (struct.pack(">I", 24) + b"ftypheic" + bytes(99), "convert it to JPEG first"),
    "bad\nname.gif": (b"GIF89a", "does not decode"),
}


@pytest.fixture
def folder(tmp_path):
    for class_name in ("cat", "dog"):
        (tmp_path / "photos" / class_name).mkdir(parents=True)
        (tmp_path / "photos" / class_name / "fine.png").write_bytes(PNG)
    cat = tmp_path / "photos" / "cat"
    for name, content in (GOOD | NO_IMAGES).items():
        (cat / name).write_bytes(content)
    for name, (content, _) in BAD.items():
        (cat / name).write_bytes(content)
    Image.fromarray(np.zeros((4, 4), np.float32)).save(cat / "floats.tif")
    (cat / "directory.png").mkdir()
    (tmp_path / "elsewhere").write_bytes(PNG)
    (cat / "linked.png").symlink_to(tmp_path / "elsewhere")
    (cat / "dangling.png").symlink_to(tmp_path / "nowhere")
    (cat / "loop.png").symlink_to(cat / "loop.png")
    if sys.platform != "win32":
        os.mkfifo(cat / "pipe.png")
        (cat / "endless.png").symlink_to("/dev/zero")
    return tmp_path / "photos"


def test_each_file_gets_what_a_user_would_want(folder):
    source = Folder(folder)
    bad = {image.why.split(": ")[0]: image.why for image in bad_images(source)}
    reasons = {name: why for name, (_, why) in BAD.items()}
    reasons |= {"floats.tif": "32-bit floats", "dangling.png": "a link to nothing", "loop.png": "cannot be read"}
    if sys.platform != "win32":
        reasons |= {"pipe.png": "not a regular file", "endless.png": "not a regular file"}
    assert set(bad) == {str(folder / "cat" / name.replace("\n", "\\n")) for name in reasons}
    for name, why in reasons.items():
        assert why in bad[str(folder / "cat" / name.replace("\n", "\\n"))]
    assert all("\n" not in why for why in bad.values())
    counts = dict(zip(source.spec.class_names, usable(source).spec.splits["train"].images, strict=True))
    assert counts == {"cat": len(GOOD) + len(["fine.png", "linked.png"]), "dog": 1}


def test_the_first_bad_file_stops_with_its_name_and_the_flag(folder, tmp_path):
    numbers = np.arange(3)
    for read in (
        lambda: Cached(Folder(folder), 8, folder=tmp_path / "cache"),
        lambda: Direct(Folder(folder), 8).batch(0 * numbers, numbers),
    ):
        with pytest.raises(DataError, match=r"photos/cat/bad\\nname.gif: .*; or leave out all .*: --skip-bad"):
            read()


def test_without_them_all_else_is_the_same_each_time_and_follows_the_files(folder, tmp_path):
    cache = tmp_path / "cache"
    first, second = usable(Folder(folder), cache), usable(Folder(folder), cache)
    assert first.bad == second.bad
    assert first.fingerprint() == second.fingerprint() != Folder(folder).fingerprint()
    cached, count = Cached(first, 8, folder=cache), first.spec.splits["train"].images[0]
    pairs = np.zeros(count, np.int64), np.arange(count)
    np.testing.assert_array_equal(cached.batch(*pairs), Direct(first, 8).batch(*pairs))
    names = [first.where(0, number) for number in range(count)]
    assert str(folder / "cat" / "fine.png") in names
    assert not any("cut.png" in name for name in names)
    (folder / "cat" / "cut.png").write_bytes(PNG)  # mended
    third = usable(Folder(folder), cache)
    assert len(third.bad) == len(first.bad) - 1
    assert Cached(third, 8, folder=cache).spec.splits["train"].images[0] == count + 1


def test_all_images_are_decoded_once_for_many_processes(folder, tmp_path, monkeypatch):
    usable(Folder(folder), tmp_path / "cache")
    monkeypatch.setattr(Folder, "image", lambda *_: pytest.fail("decoded again"))
    assert usable(Folder(folder), tmp_path / "cache").bad


def test_a_class_without_a_single_good_image_is_in_no_split(folder):
    (folder / "dog" / "fine.png").write_bytes(b"")
    source = usable(Folder(folder))
    assert [source.spec.class_names[i] for i in source.spec.splits["train"].classes] == ["cat"]


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no UTF-8")
def test_names_that_are_no_utf_8(tmp_path):
    for i in range(4):
        folder = os.path.join(os.fsencode(tmp_path), b"photos", b"caf\xe9" + bytes([65 + i]))
        os.makedirs(folder)
        with open(os.path.join(folder, b"\xff\xfe.png"), "wb") as file:
            file.write(PNG if i else b"")
    source = Folder(tmp_path / "photos")
    (bad,) = bad_images(source)
    assert r"caf\udce9A/\udcff\udcfe.png: the image does not decode" in bad.why
    bad.why.encode()  # it prints
    left = usable(source, tmp_path / "cache")
    cached = Cached(left, 8, folder=tmp_path / "cache")
    assert cached.batch(np.array(left.spec.splits["train"].classes[:1]), np.array([0])).any()
