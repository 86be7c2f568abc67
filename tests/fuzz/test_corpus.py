"""Inputs that once gave a traceback, a hang or gigabytes; each is now refused with its file, place and rule."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from fuzz.readers import CONFIG, write_mini, write_photos, write_run_record, zipped
from support.data_files import cifar_records, encoded, idx, noise
from tasknorm.data import DataError, Folder, import_source, read_spec
from tasknorm.data.formats.idx import read_idx
from tasknorm.data.formats.tfrecords import RecordFile
from tasknorm.data.formats.tree import Tree
from tasknorm.data.places import place_of
from tasknorm.data.sources.cifar import cifar10, cifar100
from tasknorm.data.sources.mini_imagenet import MiniImagenet
from tasknorm.data.sources.quickdraw import QuickDraw
from tasknorm.errors import SettingsError, WeightsError
from tasknorm.runs import read_record
from tasknorm.runs.curves import curves
from tasknorm.settings import Settings, read_config
from tasknorm.training import label, last_iteration, read_weights
from tasknorm.training.checkpoint import Checkpoint, newest_checkpoint, write_checkpoint

ABOUT = label("maml", "CBN")
special = pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices as Unix has them")


def test_an_npy_header_with_an_unbalanced_bracket(tmp_path):
    np.save(tmp_path / "cat.npy", noise(0, 2, 784))
    content = (tmp_path / "cat.npy").read_bytes()
    (tmp_path / "cat.npy").write_bytes(content.replace(b"(2, 784)", b"((2, 784"))
    with pytest.raises(DataError, match=r"cat\.npy: a class must be a whole \.npy file .*, got the header"):
        QuickDraw(tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_zip_whose_memory_cannot_be_bounded(tmp_path, method):
    (tmp_path / "photos.zip").write_bytes(zipped({"cat/0.png": b"x" * 99}, method))
    with pytest.raises(DataError, match=r"photos\.zip: members must be stored or deflated, 'cat/0.png' is packed"):
        Tree(tmp_path / "photos.zip")


@pytest.mark.parametrize("name", ["./cat/0.png", "cat//0.png", "./x"])
def test_a_zip_with_unusual_paths(tmp_path, name):
    """`./x` gave an IndexError with CIFAR, and the others a file that could not be found again."""
    (tmp_path / "photos.zip").write_bytes(zipped({name: encoded(noise(0, 3, 3, 3)), "cat/1.png": b""}))
    tree = Tree(tmp_path / "photos.zip")
    assert [len(tree.read(file)) > 0 for file in tree.names].count(True) == 1
    source = cifar10(tmp_path / "photos.zip")
    assert source.spec.class_names == ("cat",)


def test_a_zip_cut_and_put_together_wrongly(tmp_path):
    content = zipped({"cat/0.png": b"x" * 99, "dog/1.png": b"y" * 99})
    refused = []
    for at in range(0, len(content), 7):
        (tmp_path / "a.zip").write_bytes(content[:at] + content[at + 3 :])
        try:
            tree = Tree(tmp_path / "a.zip")
            for name in tree.names:
                tree.read(name)
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all(str(tmp_path / "a.zip") in message for message in refused)


@pytest.mark.parametrize("names", [b"a\nb\na\n", b"\xff\n\xfe\nc\n"])
def test_cifar_with_two_classes_of_one_name(tmp_path, names):
    (tmp_path / "fine_label_names.txt").write_bytes(names)
    (tmp_path / "test.bin").write_bytes(b"".join(b"\0" + bytes([i]) + bytes(3072) for i in range(3)))
    with pytest.raises(DataError, match=r"fine_label_names\.txt.*(two classes have the name 'a'|must be UTF-8 text)"):
        cifar100(tmp_path)


def test_a_tar_without_end(tmp_path):
    """A member of negative size sent tarfile back to its start for ever."""
    member = tarfile.TarInfo("x").tobuf()
    size = b"\xff" * 11 + b"\x00"  # -256, in base 256
    header = bytearray(member)
    header[124:136] = size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(gzip.compress(bytes(header) * 3))
    with pytest.raises(DataError, match=r"tar\.gz: "):
        cifar10(tmp_path)


@pytest.mark.parametrize("kind", [["DatasetSpecification"], {}, None, 3])
def test_a_spec_of_no_kind(tmp_path, kind):
    (tmp_path / "dataset_spec.json").write_text(json.dumps({"__class__": kind}))
    with pytest.raises(DataError, match=r"dataset_spec\.json, __class__: the kind of spec must be"):
        read_spec(tmp_path)


def test_a_wide_and_a_deep_graph_take_no_time(tmp_path):
    """Each node is looked at once for each link, and what is too large to be drawn from is not kept."""
    leaves = [f"l{i}" for i in range(4000)]
    chain = [{"wn_id": f"n{i}", "children_ids": [f"n{i + 1}", leaves[i]]} for i in range(3999)]
    nodes = [*({"wn_id": leaf, "children_ids": []} for leaf in leaves), *chain]
    nodes += [{"wn_id": "n3999", "children_ids": [leaves[3999]]}, {"wn_id": "top", "children_ids": leaves}]
    content = {
        "name": "deep",
        "split_subgraphs": {"TRAIN": nodes, "VALID": [], "TEST": []},
        "images_per_class": {"TRAIN": dict.fromkeys(leaves, 1), "VALID": {}, "TEST": {}},
        "class_names": {str(i): leaf for i, leaf in enumerate(leaves)},
        "__class__": "HierarchicalDatasetSpecification",
    }
    (tmp_path / "dataset_spec.json").write_text(json.dumps(content))
    groups = read_spec(tmp_path).splits["train"].groups
    assert len(groups) == 392 - 5 + 1
    assert max(map(len, groups)) == 392


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "text", ['{"way": 1e999}', '{"way": Infinity}', '{"way": NaN}', DEEP, '{"norm": ' + DEEP, "\xff"]
)
def test_json_that_python_takes_for_more_than_it_is(tmp_path, text):
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError, match=r"config\.json: not a valid JSON file: (numbers|.*deep|.*UTF-8)"):
        read_config(tmp_path / "config.json")
    (tmp_path / "dataset_spec.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"dataset_spec\.json: this is not a JSON file \("):
        read_spec(tmp_path)


@pytest.mark.parametrize("text", ["way = inf", "way = nan", "way = 1e999", "x = " + DEEP, "a." * 5000 + "b = 1"])
def test_toml_that_is_not_finite(tmp_path, text):
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"config\.toml: not a valid TOML file: |unknown setting|must be"):
        Settings.of(read_config(tmp_path / "config.toml"))


@pytest.mark.parametrize("given", [{"norm": {}}, {"norm": ["CBN"]}, {"learner": []}, {"source": {}}, {"source": [3]}])
def test_settings_that_are_no_texts(given):
    (key,) = given
    with pytest.raises(SettingsError, match=f"{key} must be a text, got "):
        Settings.of(given)


@pytest.mark.parametrize("way", [float("inf"), float("nan"), -(10**400), "²", [], {}])
def test_ways_that_are_no_numbers(way):
    with pytest.raises(SettingsError, match="way"):
        Settings.of({"way": way})


def test_a_setting_of_thousands_of_digits():
    with pytest.raises(SettingsError, match=r"^accumulate=9+\.\.\. contradicts meta_batch=") as error:
        Settings.of({"accumulate": 10**4000 - 1})
    assert len(str(error.value)) < 500


def test_a_list_that_is_no_text(tmp_path):
    write_mini(tmp_path)
    (tmp_path / "val.csv").write_bytes(b"filename,label\nc0.png,caf\xe9\n")
    with pytest.raises(DataError, match=r"val\.csv, byte 25: a list must be UTF-8 text"):
        MiniImagenet(tmp_path)
    (tmp_path / "val.csv").write_text("filename,label\n" + "x" * 200_000)
    with pytest.raises(DataError, match=r"val\.csv: this is not a CSV file \(field larger"):
        MiniImagenet(tmp_path)


@pytest.mark.parametrize("about", ["{", "[]", "3", "\0", DEEP])
def test_weights_that_say_nothing_about_themselves(tmp_path, about):
    content = safetensors.torch.save({"w": torch.ones(1)}, {"about": about})
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(WeightsError, match=r"w\.safetensors, about: damaged, "):
        read_weights(tmp_path / "w.safetensors", ABOUT)


@pytest.mark.parametrize("name", ["²", "٣", "00000009", "x"])
def test_what_is_no_checkpoint_beside_one(tmp_path, name):
    write_checkpoint(tmp_path, Checkpoint(1, {"w": torch.ones(1)}, {}), ABOUT)
    (tmp_path / name).symlink_to(tmp_path) if name.isascii() else (tmp_path / name).mkdir()
    assert newest_checkpoint(tmp_path, ABOUT, pytest.fail).iteration == 1
    assert last_iteration(tmp_path) == 1


def test_a_state_that_is_no_dict_is_damage(tmp_path):
    for iteration, state in ((1, {}), (2, [1, 2])):
        write_checkpoint(tmp_path, Checkpoint(iteration, {"w": torch.ones(1)}, state), ABOUT)
    said: list[str] = []
    assert newest_checkpoint(tmp_path, ABOUT, said.append).iteration == 1
    assert "state.pt holds a list" in said[0]


def test_metrics_of_an_iteration_that_never_was(tmp_path):
    line = {"loss": 1.0, "accuracy": 0.5, "learning_rate": 1e-3, "context": 5, "seconds": 0.1}
    lines = [{"iteration": i} | line for i in (1, 2**40)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    with pytest.raises(DataError, match=r"metrics\.jsonl, line 2: damaged; it must hold an iteration from 1 on"):
        curves(tmp_path)


def test_a_result_whose_lists_differ_in_length(tmp_path):
    write_run_record(tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    result["curve"]["loss"].append(1.0)
    (tmp_path / "result.json").write_text(json.dumps(result))
    with pytest.raises(SettingsError, match=r"result\.json: damaged \(curve: .*one length, got 2 and 3"):
        read_record(tmp_path)


READS = {
    "cat.npy": lambda path: QuickDraw(path.parent),
    "images.gz": read_idx,
    "0.tfrecords": lambda path: list(RecordFile(path).examples()),
    "dataset_spec.json": read_spec,
    "config.toml": read_config,
    "w.safetensors": lambda path: read_weights(path, ABOUT),
    "a/0.png": lambda path: Folder(path.parent.parent).image(0, 0),
    "metrics.jsonl": lambda path: curves(path.parent),
}


def test_a_data_set_whose_name_no_file_could_have(tmp_path):
    assert place_of("x" * 5000, tmp_path) is None


@special
@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("target", ["/dev/zero", "pipe", "nothing"])
def test_links_to_what_never_ends_or_is_not_there(tmp_path, name, target):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if target == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / target)
    if (name, target) == ("metrics.jsonl", "nothing"):
        assert curves(tmp_path)["seconds"] == 0
        return
    why = "a link to nothing|not found|is no folder" if target == "nothing" else "not a regular file"
    with pytest.raises((DataError, SettingsError, WeightsError), match=why) as error:
        READS[name](path)
    assert str(path) in str(error.value)


@special
def test_an_import_takes_nothing_along_that_links_point_to(tmp_path):
    write_photos(tmp_path)
    (tmp_path / "secret.png").write_bytes(b"secret")
    link = tmp_path / "pets" / "cat" / "2.png"
    for target, why in (
        ("../../secret.png", "this link leads out of the data set, to ../../secret.png"),
        ("/etc", "this link leads out of the data set, to /etc"),
        ("nothing.png", "this is a link to nothing"),
        ("2.png", "this is a link to nothing"),
    ):
        link.symlink_to(target)
        with pytest.raises(DataError, match=f"cat/2.png: {why}"):
            import_source(tmp_path / "pets", "animals", tmp_path / "root")
        link.unlink()
    os.mkfifo(tmp_path / "pets" / "cat" / "notes.txt")
    with pytest.raises(DataError, match=r"notes.txt: this is a pipe, device or socket"):
        import_source(tmp_path / "pets", "animals", tmp_path / "root")
    (tmp_path / "pets" / "cat" / "notes.txt").unlink()
    assert not (tmp_path / "root").exists() or not list((tmp_path / "root").iterdir())
    link.symlink_to("0.png")
    (tmp_path / "pets" / "cat" / "around").symlink_to("..")
    source = import_source(tmp_path / "pets", "animals", tmp_path / "root")
    assert sum(map(len, source._files)) == 9
    assert not any(path.is_symlink() for path in (tmp_path / "root").rglob("*"))


BOMBS = {
    "zip": "from tasknorm.data.formats.tree import Tree; tree = Tree(path); tree.read(tree.names[0])",
    "gz": "from tasknorm.data.formats.idx import read_idx; read_idx(path)",
    "tar.gz": "from tasknorm.data.sources.cifar import cifar10; cifar10(path)",
}


def bomb(kind: str, path: Path) -> None:
    """A file that expands to a gigabyte."""
    blank = bytes(1 << 20)
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("noise", np.random.default_rng(0).bytes(12 << 20))
            with archive.open("cat/0.png", "w", force_zip64=True) as file:
                for _ in range(1 << 10):
                    file.write(blank)
        return
    with gzip.open(path, "wb", compresslevel=1) as file:
        if kind == "gz":
            file.write(struct.pack(">BBBB2I", 0, 0, 8, 2, 1 << 20, 1 << 10))
        else:
            member = tarfile.TarInfo("x")
            member.size, member.type = 1 << 30, tarfile.XHDTYPE
            file.write(member.tobuf(tarfile.PAX_FORMAT))
        for _ in range(1 << 10):
            file.write(blank)


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_that_expands_to_a_gigabyte(tmp_path, kind):
    path = tmp_path / f"bomb.{kind}"
    bomb(kind, path)
    code = (
        f"import resource, sys; from pathlib import Path; path = Path({str(path)!r})\n"
        "import numpy, torch, PIL.Image, tasknorm.data\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"try:\n    {BOMBS[kind]}\n"
        "except tasknorm.data.DataError as error:\n    print(error)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    message, mebibytes = done.stdout.splitlines()
    assert str(path) in message
    assert "268,435,456 bytes" in message
    assert int(mebibytes) < 100


def test_what_is_just_small_enough_is_read(tmp_path):
    (tmp_path / "images").write_bytes(idx(np.zeros((1 << 10, 1 << 10), np.uint8)))
    assert read_idx(tmp_path / "images").shape == (1 << 10, 1 << 10)
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in (("batches.meta.txt", b"a b c d e f g h i j"), ("test_batch.bin", cifar_records(10, 20))):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(file.getvalue())
    assert cifar10(tmp_path).image(3, 1).shape == (32, 32, 3)


def test_the_config_of_a_run_is_still_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG.values()))
    assert Settings.of(read_config(tmp_path / "config.json")) == CONFIG
