"""Small data sets of every source, with the names and layouts of the real ones."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from tasknorm.data import Folder, write_records
from tasknorm.data.sources.omniglot import ALPHABETS_TEST

BACKGROUND = {
    "Alphabet_of_the_Magi": 20, "Anglo-Saxon_Futhorc": 29, "Arcadian": 26, "Armenian": 41,
    "Asomtavruli_(Georgian)": 40, "Balinese": 24, "Bengali": 46,
    "Blackfoot_(Canadian_Aboriginal_Syllabics)": 14, "Braille": 26, "Burmese_(Myanmar)": 34, "Cyrillic": 33,
    "Early_Aramaic": 22, "Futurama": 26, "Grantha": 43, "Greek": 24, "Gujarati": 48, "Hebrew": 22,
    "Inuktitut_(Canadian_Aboriginal_Syllabics)": 16, "Japanese_(hiragana)": 52, "Japanese_(katakana)": 47,
    "Korean": 40, "Latin": 26, "Malay_(Jawi_-_Arabic)": 40, "Mkhedruli_(Georgian)": 41, "N_Ko": 33,
    "Ojibwe_(Canadian_Aboriginal_Syllabics)": 14, "Sanskrit": 42, "Syriac_(Estrangelo)": 23, "Tagalog": 17,
    "Tifinagh": 55,
}  # fmt: skip
EVALUATION = dict(
    zip(
        ALPHABETS_TEST,
        (20, 26, 26, 26, 26, 26, 45, 45, 41, 26, 47, 40, 30, 45, 46, 28, 23, 25, 42, 26),
        strict=True,
    )
)


def encoded(pixels: np.ndarray, form: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


def noise(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def write_omniglot(path: Path, drawings: int = 2) -> None:
    one_bit = io.BytesIO()
    page = np.full((105, 105), 255, np.uint8)
    page[10:20, 30:90] = 0  # a bar near the top: black on white
    Image.fromarray(page).convert("1").save(one_bit, "PNG")
    with zipfile.ZipFile(path, "w") as archive:
        for part, alphabets in (("images_background", BACKGROUND), ("images_evaluation", EVALUATION)):
            for alphabet, characters in alphabets.items():
                for character in range(1, characters + 1):
                    for drawing in range(1, drawings + 1):
                        name = f"{part}/{alphabet}/character{character:02}/{character:04}_{drawing:02}.png"
                        archive.writestr(name, one_bit.getvalue())


def write_mini_imagenet(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for file, labels in (("train.csv", "abcdef"), ("val.csv", "ghijk"), ("test.csv", "lmnop")):
            rows = [(f"{label}{i}.jpg", label) for label in labels for i in range(4)]
            archive.writestr(file, "filename,label\n" + "".join(f"{name},n{label}\n" for name, label in rows))
            for i, (name, _) in enumerate(rows):
                archive.writestr(f"images/{name}", encoded(noise(i, 20, 20, 3), "JPEG"))


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder: Path) -> None:
    folder.mkdir()
    labels = np.arange(40, dtype=np.uint8) % 10
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(noise(0, 40, 28, 28))))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(labels))


def cifar_records(labels: int, images: int) -> bytes:
    """Records with one label byte before each image's 3072; CIFAR-100's have a coarse label in front."""
    rows = [bytes([i % labels]) + noise(i, 3072).tobytes() for i in range(images)]
    return b"".join(rows) if labels == 10 else b"".join(b"\x07" + row for row in rows)


def write_cifar(root: Path) -> None:
    (root / "cifar10").mkdir()
    with tarfile.open(root / "cifar10" / "cifar-10-binary.tar.gz", "w:gz") as archive:
        names = "airplane automobile bird cat deer dog frog horse ship truck".replace(" ", "\n").encode() + b"\n\n"
        files = {"batches.meta.txt": names, "test_batch.bin": cifar_records(10, 40)}
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    (root / "cifar100").mkdir()
    (root / "cifar100" / "fine_label_names.txt").write_text("\n".join(f"fine{i:02}" for i in range(100)))
    (root / "cifar100" / "test.bin").write_bytes(cifar_records(100, 300))


def write_quickdraw(folder: Path) -> None:
    folder.mkdir()
    for i, name in enumerate(("The Eiffel Tower", "ant", "bee", "cat", "dog", "eel", "fox")):
        np.save(folder / f"{name}.npy", noise(i, 5, 784))


def write_pets(folder: Path, classes: int = 20, images: int = 6) -> None:
    for i in range(classes):
        (folder / f"pet{i:02}").mkdir(parents=True)
        for number in range(images):
            side = 8 + number
            (folder / f"pet{i:02}" / f"{number}.png").write_bytes(encoded(noise(100 * i + number, side, 10, 3)))
    splits = {"train": [], "valid": [], "test": []}
    for i in range(classes):
        splits["train" if i < 10 else "valid" if i < 15 else "test"].append(f"pet{i:02}")
    (folder.parent / f"{folder.name}.splits.json").write_text(json.dumps(splits))


def write_recorded(folder: Path, pets: Path) -> None:
    spec = Folder(pets, pets.parent / "pets.splits.json").spec
    classes = ((name, [encoded(noise(i, 9, 9, 3), "JPEG") for i in range(6)]) for name in spec.class_names)
    write_records(folder, spec, classes)
