"""The table of all readers: small whole files for each, and how they are read."""

from __future__ import annotations

import copy
import gzip
import hashlib
import io
import json
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from random import Random

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load, save, save_file
from transformers import AutoModel, ResNetConfig

from fuzz.mutations import flipped, mutated, mutated_json
from support.data_files import cifar_records, encoded, idx, noise
from tasknorm.conversion import convert
from tasknorm.data import (
    Cached,
    DataError,
    Folder,
    LeftOut,
    Preparation,
    import_source,
    keep_left_out,
    listed,
    read_spec,
    write_spec,
)
from tasknorm.data.cache import damaged_caches
from tasknorm.data.formats.example import encode_example
from tasknorm.data.formats.idx import read_idx
from tasknorm.data.formats.pixels import FORMATS, decoded
from tasknorm.data.formats.tfrecords import RecordFile, frame, write_records
from tasknorm.data.formats.tree import Tree
from tasknorm.data.sources.cifar import cifar10, cifar100
from tasknorm.data.sources.folder import read_splits, split_names
from tasknorm.data.sources.mini_imagenet import MiniImagenet
from tasknorm.data.sources.mnist import Mnist
from tasknorm.data.sources.quickdraw import QuickDraw
from tasknorm.data.sources.record_folder import RecordFolder
from tasknorm.data.sources.source import Source, images_by_class
from tasknorm.data.spec import Spec, Split
from tasknorm.data.usable import usable
from tasknorm.learners import Calibration, CNAPs, Learner, Predictor, ProtoNets
from tasknorm.learners.about import About
from tasknorm.machine import read_regular
from tasknorm.nets import NETS, Backbone, ResNet, protonets_conv4
from tasknorm.norms import NORMS
from tasknorm.runs import read_record
from tasknorm.runs.calibration import OfNorm, RunCalibration, read_calibration
from tasknorm.runs.curves import curves
from tasknorm.runs.meta_test import loaded
from tasknorm.settings import PretrainSettings, Settings, read_config
from tasknorm.training import (
    RunFolder,
    as_ours,
    label,
    last_metrics,
    load_pretrained,
    read_released,
    read_weights,
    released_name,
    weights_of,
    write_weights,
)
from tasknorm.training.checkpoint import Checkpoint, newest_checkpoint, write_checkpoint

Write = Callable[[Path], object]
Read = Callable[[Path, str], object]
Damage = Callable[[str, bytes, bytes, Random], bytes]


@dataclass(frozen=True)
class Reader:
    """One way in which files are read.

    Args:
        write: makes whole files in a folder.
        read: reads them; is told which of them may be damaged.
        inner: damages what lies behind checksums and compression, and mends these: else hardly anything gets past them.
        weight: how often it is chosen; slow readers less.
        names_file: whether its messages name the file; settings are named by those who call them.
        keeps: a file that is never damaged, by the start of its path.
    """

    write: Write
    read: Read
    inner: Damage | None = None
    weight: int = 2
    names_file: bool = True
    keeps: str = "\0"


def files_of(**contents: bytes) -> Write:
    def write(folder: Path) -> None:
        for name, content in contents.items():
            (folder / name.replace("__", ".")).write_bytes(content)

    return write


def all_images(source: Source) -> None:
    """Decode all images; each may be bad by itself."""
    for class_id, count in enumerate(images_by_class(source.spec)):
        for number in range(min(count, 3)):
            with suppress(DataError):
                source.image(class_id, number)
    source.fingerprint()


# Arrays


def write_npy(folder: Path) -> None:
    for i, name in enumerate(("ant", "bee", "cat")):
        np.save(folder / f"{name}.npy", noise(i, 2, 784))


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


def read_tree(folder: Path, name: str) -> None:
    tree = Tree(folder / name)
    for file in tree.names:
        tree.read(file)
        tree.start(file, 4)


def npy(seed: int) -> bytes:
    file = io.BytesIO()
    np.save(file, noise(seed, 2, 784))
    return file.getvalue()


def inside_gzip(name: str, content: bytes, other: bytes, random: Random) -> bytes:
    if content[:2] != b"\x1f\x8b":
        return mutated(content, other, random)
    return gzip.compress(mutated(gzip.decompress(content), other, random), 1, mtime=0)


def inside_zip(name: str, content: bytes, other: bytes, random: Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    chosen = random.choice(list(files))
    if random.random() < 0.2:
        renamed = random.choice(
            ("../evil", "/evil", "a//b.png", "./x/y.png", "", ".", "a" * 300 + "/b.png", "x/²\n.png")
        )
        files[renamed] = files.pop(chosen)
    else:
        files[chosen] = mutated(files[chosen], other, random)
    return zipped(files, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))


def tar(files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


CIFAR = {"batches.meta.txt": b"\n".join(b"name%d" % i for i in range(10)), "test_batch.bin": cifar_records(10, 3)}


# Images


def pictures() -> dict[str, bytes]:
    pixels = noise(0, 9, 11, 3)
    forms = {"BMP": {}, "GIF": {}, "WEBP": {}, "PPM": {}, "JPEG": {}, "PNG": {}, "TIFF": {"compression": "tiff_lzw"}}
    found = {}
    for form, options in forms.items():
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, form, **options)
        found[f"{form}.{form.lower()}"] = file.getvalue()
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", progressive=True, exif=exif)
    found["progressive.jpeg"] = file.getvalue()
    file = io.BytesIO()
    Image.fromarray(noise(1, 8, 8).astype(np.uint16) * 257).save(file, "PNG")
    found["deep.png"] = file.getvalue()
    file = io.BytesIO()
    Image.fromarray(noise(2, 8, 8)).convert("P").save(file, "PNG", transparency=3)
    found["palette.png"] = file.getvalue()
    if "AVIF" in FORMATS:
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "AVIF", speed=10)
        found["AVIF.avif"] = file.getvalue()
    return found


def write_pictures(folder: Path) -> None:
    for name, content in pictures().items():
        (folder / name).write_bytes(content)


def read_picture(folder: Path, name: str) -> None:
    tree = Tree(folder)
    for channels, upright in ((3, True), (1, False)):
        decoded(tree.read(name), channels, tree.where(name), upright=upright)


def inside_png(name: str, content: bytes, other: bytes, random: Random) -> bytes:
    """Damage a chunk and mend its checksum; other formats have none."""
    if not name.endswith(".png"):
        return mutated(content, other, random)
    chunks, at = [], 8
    while at < len(content):
        length = int.from_bytes(content[at : at + 4])
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + length]))
        at += 12 + length
    chosen = random.randrange(len(chunks))
    chunks[chosen] = chunks[chosen][0], mutated(chunks[chosen][1], other, random)[:100_000]
    rows = (struct.pack(">I", len(b)) + a + b + struct.pack(">I", zlib.crc32(a + b)) for a, b in chunks)
    return content[:8] + b"".join(rows)


def write_photos(folder: Path, root: str = "pets") -> None:
    for i, name in enumerate(("cat", "dog", "eel", "fox")):
        (folder / root / name).mkdir(parents=True)
        (folder / root / name / "0.png").write_bytes(encoded(noise(i, 5, 6, 3)))
        (folder / root / name / "1.jpg").write_bytes(encoded(noise(9 + i, 8, 8, 3), "JPEG"))


def write_mini(folder: Path) -> None:
    for i, (file, labels) in enumerate((("train.csv", "ab"), ("val.csv", "c"), ("test.csv", "d"))):
        rows = [f"{letter}{n}.png,n{letter}\n" for letter in labels for n in range(2)]
        (folder / file).write_text("filename,label\n" + "".join(rows))
        for row in rows:
            (folder / row.split(",")[0]).write_bytes(encoded(noise(i, 4, 4, 3)))


# Records and specs

SPEC = Spec("pets", ("cat", "dog", "eel"), {s: Split((i,), (2,)) for i, s in enumerate(("train", "valid", "test"))})
LETTERS = Spec(
    "letters",
    tuple(f"letter{i}" for i in range(6)),
    {
        s: Split((2 * i, 2 * i + 1), (20, 20), ((0,), (1,)), "bilevel", (f"a{i}", f"b{i}"))
        for i, s in enumerate(("train", "valid", "test"))
    },
)


def graph(split: str) -> list[dict[str, object]]:
    leaves = [f"{split}{i}" for i in range(6)]
    nodes: list[dict[str, object]] = [{"wn_id": leaf, "children_ids": []} for leaf in leaves]
    half = {"wn_id": f"{split}half", "children_ids": leaves[:3]}
    return [*nodes, half, {"wn_id": f"{split}top", "children_ids": [*leaves, f"{split}half"]}]


def write_specs(folder: Path) -> None:
    write_spec(SPEC, folder / "plain.json")
    write_spec(LETTERS, folder / "bilevel.json")
    splits = ("TRAIN", "VALID", "TEST")
    dag = {
        "name": "ilsvrc",
        "split_subgraphs": {split: graph(split) for split in splits},
        "images_per_class": {split: {f"{split}{i}": 9 for i in range(6)} for split in splits},
        "class_names": {str(6 * s + i): f"{split}{i}" for s, split in enumerate(splits) for i in range(6)},
        "__class__": "HierarchicalDatasetSpecification",
    }
    (folder / "dag.json").write_text(json.dumps(dag))


def write_recorded(folder: Path) -> None:
    shutil.rmtree(folder)
    jpegs = [encoded(noise(i, 5, 5, 3), "JPEG") for i in range(2)]
    write_records(folder, SPEC, ((name, jpegs) for name in SPEC.class_names))


def inside_records(name: str, content: bytes, other: bytes, random: Random) -> bytes:
    if not name.endswith(".tfrecords"):
        return mutated(content, other, random)
    payloads, at = [], 0
    while at < len(content):
        length = int.from_bytes(content[at : at + 8], "little")
        payloads.append(content[at + 12 : at + 12 + length])
        at += 16 + length
    chosen = random.randrange(len(payloads))
    payloads[chosen] = mutated(payloads[chosen], other, random)
    return b"".join(map(frame, payloads))


# Runs

CONFIG = Settings.of({"learner": "protonets", "source": "glyphs", "filters": 8, "norm": "TaskNorm-I", "device": "cpu"})
ABOUT = label("protonets", "TaskNorm-I")
ROW = {"weights": "best", "norm": "TaskNorm-I", "source": "glyphs", "way": 5, "shot": 1, "targets": "all", "tasks": 9}
POINT = {"accuracy": 0.5, "interval": 0.1}
RESULT = {
    "seconds": 1.0,
    "seconds_per_iteration": 0.1,
    "contexts": 5.0,
    "curve": {"iteration": [1, 2], "loss": [1.0, 0.5], "accuracy": [0.5, 0.6], "seconds": [0.1, 0.2]},
    "validation": {"iteration": [2], "seconds": [0.2], "accuracy": {"TaskNorm-I": [0.6]}},
    "alphas": [{"layer": "blocks.0.norm", "scale": None, "offset": 0.1}],
    "accuracies": [ROW | {"label": "non-transductive"} | POINT | {"step": 1, "maximum": POINT, "steps": [POINT]}],
    "seconds_per_test_task": {"TaskNorm-I": 0.01},
    "threads": 1,
}
STEP = {"loss": 1.0, "accuracy": 0.5, "learning_rate": 1e-3, "context": 5, "seconds": 0.1}
METRICS = [{"iteration": i} | STEP for i in (1, 2)] + [{"iteration": 2, "validation/LN": 0.5, "seconds": 0.1}]
TOML = "\n".join(f"{key} = {json.dumps(value)}" for key, value in CONFIG.values().items() if value is not None)
STATE = {"optimizer": {"state": {0: {"step": torch.ones(1)}}}, "best": {"LN": {"a": 0.5}}, "threads": [1]}


def write_run_record(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(CONFIG.values()))
    (folder / "result.json").write_text(json.dumps(RESULT))


def read_run_record(folder: Path, name: str) -> None:
    assert read_record(folder).results is not None
    read_record(folder).chosen()


def write_checkpoints(folder: Path) -> None:
    for iteration in (1, 2):
        write_checkpoint(folder, Checkpoint(iteration, {"w": torch.ones(3)}, STATE), ABOUT)


def read_checkpoints(folder: Path, name: str) -> None:
    newest_checkpoint(folder, ABOUT, str)


def damaged_checkpoint(folder: Path, name: str) -> None:
    """Mend the checksums of a damaged checkpoint, then read it."""
    index = folder / Path(name).parent / "index.json"
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        content = json.loads(read_regular(index, 1 << 20))
        files = [path for path in index.parent.iterdir() if path.is_file()]
        sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        if Path(name).name != "index.json":
            index.write_text(json.dumps(content | {"sha256": sums}))
    newest_checkpoint(folder, ABOUT, str)


IMAGES = torch.from_numpy(noise(0, 5, 1, 28, 28) / 255).float()


@cache
def learner() -> Learner:
    torch.manual_seed(0)
    return ProtoNets(protonets_conv4(partial(NORMS["TaskNorm-I"], alpha="independent-shared"), filters=8)).eval()


def write_predictor(folder: Path) -> None:
    learner().adapt(IMAGES, torch.arange(5)).save(folder / "predictor.safetensors")


def read_predictor(folder: Path, name: str) -> None:
    predictor = Predictor.load(folder / name, fresh_net())
    assert predictor(IMAGES[:1]).shape == (1, 5)


def write_old_predictor(folder: Path) -> None:
    """As version 0.1.0 wrote it."""
    tensors = learner().adapt(IMAGES, torch.arange(5)).adapted.state_dict()
    about = {"format": "tasknorm predictor 1", "norms": "TaskNorm-I", "classifier": "(5, 8)"}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "old.safetensors", about)


@cache
def small_cnaps() -> Learner:
    torch.manual_seed(0)
    net = NETS["resnet-small"](NORMS["TaskNorm-I"], film=True, image_shape=(1, 16, 16))
    return CNAPs(net, NORMS["TaskNorm-I"], encoder_filters=4).eval()


def write_whole_predictor(of: Callable[[], Learner], size: int, folder: Path, channels: int = 1) -> None:
    """A predictor that says all about itself, and its context."""
    context = {name: [noise(number, 20, 20)] for number, name in enumerate(("cat", "dog", "eel"))}
    of().adapt_to(context, Preparation(size=size, channels=channels)).save(folder / "whole.safetensors")


@cache
def network_of_transformers() -> Learner:
    shape = {"embedding_size": 4, "hidden_sizes": [4, 4], "depths": [1, 1], "layer_type": "basic"}
    net = Backbone(AutoModel.from_config(ResNetConfig(**shape)), (3, 16, 16), "hf:folder")
    return ProtoNets(convert(net, "TaskNorm-r", start="preserve", running="fixed"), temperature=True)


def read_whole_predictor(folder: Path, name: str) -> None:
    predictor = Predictor.load(folder / name)
    shape = predictor.preparation.shape if predictor.preparation else predictor.net.image_shape
    assert predictor(torch.zeros(1, *shape)).shape == (1, len(predictor.names))


def inside_predictor(name: str, content: bytes, other: bytes, random: Random) -> bytes:
    """Damage what a predictor says about itself, or its tensors, and mend the checksum."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    if random.random() < 0.7:
        text = mutated_json(header["__metadata__"]["about"].encode(), random)
    else:
        text, content = header["__metadata__"]["about"].encode(), flipped(content, other, random)
    try:
        about, tensors = About.model_validate_json(text), load(content)
        return save(tensors, {"about": about.signed(tensors).model_dump_json()})
    except (ValueError, SafetensorError, KeyError):  # refused for what is wrong, not for its checksum
        header["__metadata__"]["about"] = text.decode(errors="replace")
        start = json.dumps(header).encode(errors="replace")
        return len(start).to_bytes(8, "little") + start + content[8 + length :]


OF_NORM = OfNorm(weights="0" * 64, step=2, example=Calibration(temperature=2.0), all=Calibration(threshold=0.5))
KEPT = RunCalibration(tasknorm="0", preparation=Preparation(size=8, channels=3), norms={"TBN": OF_NORM})


def fresh_net() -> torch.nn.Module:
    return copy.deepcopy(learner().net)


@cache
def extractor() -> torch.nn.Module:
    return ResNet(NORMS["LN"], widths=(4, 8), depth=1, film=False, image_shape=(1, 12, 12))


@cache
def run_learner() -> torch.nn.Module:
    from tasknorm.runs.parts import learner_of

    return learner_of(CONFIG)


def write_run_weights(folder: Path) -> None:
    write_weights(folder / "model.safetensors", weights_of(run_learner()), ABOUT)


def write_released(folder: Path) -> None:
    """As CNAPs' authors released theirs, today's format of torch and the one before version 1.6."""
    state = small_cnaps().state_dict()
    named = {theirs: state[name].clone() for name in state if (theirs := released_name(name))}
    named = {name: t.reshape(1) if name.endswith((".a", ".b")) else t for name, t in named.items()}
    torch.save(named, folder / "film.pt")
    torch.save({"epoch": 1, "state_dict": named}, folder / "old.pt.tar", _use_new_zipfile_serialization=False)


def read_released_file(folder: Path, name: str) -> None:
    like = small_cnaps().state_dict()
    found = as_ours(read_released(folder / name), like, folder / name)
    assert all(found[name].isfinite().all() and found[name].shape == like[name].shape for name in found)


def inside_torch_zip(name: str, content: bytes, other: bytes, random: Random) -> bytes:
    """Damage a part of the file, mostly the pickled one, and mend the checksums of the zip."""
    if content[:2] != b"PK":
        return mutated(content, other, random)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    pickled = next(name for name in files if name.endswith("/data.pkl"))
    chosen = pickled if random.random() < 0.8 else random.choice(list(files))
    files[chosen] = mutated(files[chosen], other, random)
    return zipped(files, zipfile.ZIP_STORED if random.random() < 0.95 else zipfile.ZIP_DEFLATED)


# Caches


def write_cache(folder: Path) -> None:
    write_photos(folder, "keep")
    Cached(Folder(folder / "keep"), 6, folder=folder)
    usable(Folder(folder / "keep"), folder)
    for lock in folder.glob("*.lock"):
        lock.unlink()


def read_cache(folder: Path, name: str) -> None:
    """Whatever happened to the cache, the images are those of the source."""
    source = Folder(folder / "keep")
    list(damaged_caches(source, folder))
    classes, numbers = np.arange(4), np.ones(4, np.int64)
    found = Cached(source, 6, folder=folder).batch(classes, numbers)
    whole = [source.resize(source.image(class_id, 1), 6).transpose(2, 0, 1) for class_id in range(4)]
    assert (found == np.stack(whole)).all(), "the cache holds other images than the source"
    assert not usable(source, folder).bad, "a good image is in the list of bad ones"


ROWS = [LeftOut("pets", "cat", 3, "broken"), LeftOut("pets", "dog", None, "too small")]


def write_left_out(folder: Path) -> None:
    keep_left_out(ROWS, folder / "left_out.json")


def read_import(folder: Path, name: str) -> None:
    root = folder / ".root"
    shutil.rmtree(root, ignore_errors=True)
    try:
        import_source(folder / "pets", "animals", root)
        assert not any(path.read_bytes().startswith(b"root:") for path in root.rglob("*") if path.is_file())
    finally:
        shutil.rmtree(root, ignore_errors=True)


SPLITS = json.dumps({"train": ["cat", "dog"], "valid": ["eel"], "test": ["fox"]}).encode()
MANY_SPLITS = json.dumps({"pets": json.loads(SPLITS), "others": {"train": []}}).encode()

READERS: dict[str, Reader] = {
    "npy": Reader(write_npy, lambda folder, _: all_images(QuickDraw(folder))),
    "npy in a zip": Reader(
        files_of(q__zip=zipped({"a.npy": npy(0), "b.npy": npy(1)})),
        lambda folder, _: all_images(QuickDraw(folder / "q.zip")),
        inside_zip,
    ),
    "idx": Reader(files_of(images=idx(noise(0, 2, 3, 4))), lambda folder, name: read_idx(folder / name)),
    "idx, gzipped": Reader(
        files_of(images__gz=gzip.compress(idx(noise(0, 2, 3, 4)))), lambda f, name: read_idx(f / name), inside_gzip
    ),
    "mnist": Reader(
        files_of(
            **{
                "t10k-images-idx3-ubyte__gz": gzip.compress(idx(noise(0, 10, 6, 6))),
                "t10k-labels-idx1-ubyte": idx(np.arange(10, dtype=np.uint8)),
            }
        ),
        lambda folder, _: all_images(Mnist(folder)),
        inside_gzip,
    ),
    "zip": Reader(
        files_of(
            deflated__zip=zipped({"a/b.txt": b"text" * 9, "c/d": b"x"}),
            stored__zip=zipped({"a/b.txt": b"text" * 9, "c/d": b"x"}, zipfile.ZIP_STORED),
            lzma__zip=zipped({"a/b.txt": b"text" * 9, "c/d": b"x"}, zipfile.ZIP_LZMA),
            bzip2__zip=zipped({"a/b.txt": b"text" * 9, "c/d": b"x"}, zipfile.ZIP_BZIP2),
        ),
        read_tree,
        inside_zip,
    ),
    "zip of images": Reader(
        files_of(pets__zip=zipped({f"{c}/{i}.png": encoded(noise(i, 3, 3, 3)) for c in "abcd" for i in range(2)})),
        lambda folder, _: all_images(Folder(folder / "pets.zip")),
        inside_zip,
        weight=1,
    ),
    "folder of images": Reader(write_photos, lambda folder, _: all_images(Folder(folder / "pets")), weight=1),
    "image": Reader(write_pictures, read_picture, inside_png, weight=8),
    "TFRecord": Reader(
        files_of(**{"0__tfrecords": frame(encode_example(b"jpeg" * 9, 0)) * 2}),
        lambda folder, name: list(RecordFile(folder / name).examples()),
    ),
    "example": Reader(
        files_of(**{"0__tfrecords": frame(encode_example(b"jpeg" * 9, 0)) * 2}),
        lambda folder, name: list(RecordFile(folder / name).examples()),
        inside_records,
    ),
    "record folder": Reader(
        write_recorded, lambda folder, _: all_images(RecordFolder(folder)), inside_records, weight=1
    ),
    "dataset_spec": Reader(write_specs, lambda folder, name: read_spec(folder / name), weight=8),
    "splits": Reader(
        files_of(one__json=SPLITS, many__json=MANY_SPLITS),
        lambda folder, name: (read_splits(folder / name, "pets"), split_names(folder / name)),
    ),
    "mini_imagenet": Reader(write_mini, lambda folder, _: all_images(MiniImagenet(folder)), weight=1),
    "cifar10, tar": Reader(
        files_of(**{"cifar-10-binary__tar__gz": tar(CIFAR)}),
        lambda folder, _: all_images(cifar10(folder)),
        inside_gzip,
        weight=1,
    ),
    "cifar100": Reader(
        files_of(fine_label_names__txt=b"\n".join(b"fine%d" % i for i in range(100)), test__bin=cifar_records(100, 3)),
        lambda folder, _: all_images(cifar100(folder)),
    ),
    "data folder": Reader(
        lambda folder: (write_photos(folder), (folder / "splits.json").write_bytes(MANY_SPLITS)),
        lambda folder, _: listed(folder),
        weight=1,
    ),
    "import": Reader(write_photos, read_import, weight=1),
    "config, JSON": Reader(
        files_of(config__json=json.dumps(CONFIG.values()).encode()),
        lambda folder, name: Settings.of(read_config(folder / name)).values(),
        names_file=False,
    ),
    "config, TOML": Reader(
        files_of(config__toml=TOML.encode()),
        lambda folder, name: Settings.of(read_config(folder / name)).values(),
        names_file=False,
    ),
    "pretraining's config": Reader(
        files_of(config__json=json.dumps(PretrainSettings.of({}).values()).encode()),
        lambda folder, name: PretrainSettings.of(read_config(folder / name)).values(),
        names_file=False,
    ),
    "record": Reader(write_run_record, read_run_record),
    "metrics": Reader(
        files_of(metrics__jsonl=b"".join(json.dumps(line).encode() + b"\n" for line in METRICS)),
        lambda folder, name: (curves(folder), last_metrics(folder / name)),
    ),
    "weights": Reader(
        lambda folder: write_weights(folder / "w.safetensors", {"w": torch.ones(3), "v": torch.ones(2, 2)}, ABOUT),
        lambda folder, name: read_weights(folder / name, ABOUT),
    ),
    "weights of a run": Reader(
        write_run_weights, lambda folder, name: loaded(CONFIG, folder / name, "TaskNorm-I"), weight=1
    ),
    "pretrained weights": Reader(
        lambda folder: write_weights(folder / "e.safetensors", weights_of(extractor()), label("pretraining", "CBN")),
        lambda folder, name: load_pretrained(extractor(), folder / name),
        weight=1,
    ),
    "weights of CNAPs' authors": Reader(write_released, read_released_file, inside_torch_zip, weight=1),
    "checkpoint": Reader(write_checkpoints, read_checkpoints, weight=1),
    "checkpoint, checksums mended": Reader(write_checkpoints, damaged_checkpoint, weight=1),
    "predictor": Reader(write_predictor, read_predictor, weight=1),
    "predictor of version 0.1": Reader(write_old_predictor, read_predictor, weight=1),
    "predictor, whole": Reader(
        partial(write_whole_predictor, learner, 28), read_whole_predictor, inside_predictor, weight=2
    ),
    "predictor of CNAPs": Reader(
        partial(write_whole_predictor, small_cnaps, 16), read_whole_predictor, inside_predictor, weight=1
    ),
    "predictor of a network of others": Reader(
        partial(write_whole_predictor, network_of_transformers, 16, channels=3),
        read_whole_predictor,
        inside_predictor,
        weight=1,
    ),
    "calibration": Reader(
        files_of(calibration__json=KEPT.model_dump_json().encode()),
        lambda folder, _: read_calibration(RunFolder(folder)),
    ),
    "cache": Reader(write_cache, read_cache, weight=1, keeps="keep/"),
    "left_out": Reader(write_left_out, lambda folder, name: keep_left_out(ROWS, folder / name)),
}
CHEAP = (
    *("idx", "idx, gzipped", "mnist", "TFRecord", "example", "dataset_spec", "splits", "cifar100", "left_out"),
    *("config, JSON", "config, TOML", "pretraining's config", "record", "metrics", "weights"),
)
READERS |= {name: replace(READERS[name], weight=8) for name in CHEAP}  # a thousand or more a second
