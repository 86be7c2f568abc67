"""The command: what users type, and what they see when it goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image
from typer.testing import CliRunner

from support.data_files import encoded, noise, write_mnist, write_pets
from tasknorm.cli import app
from tasknorm.data import Cached, opened
from tasknorm.data.downloads.addresses import ADDRESSES, Address

VERBS = ["list", "download", "import", "check", "show", "sample"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `tasknorm data ...` in a data folder with one data set, `pets`."""
    write_pets(tmp_path / "data" / "pets", classes=20, images=6)
    monkeypatch.setenv("TASKNORM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TASKNORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["data", *map(str, words)])


def failed(result, *parts):
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("tasknorm: ")
    assert result.stderr.count("\n") == 1  # one message, no traceback
    for part in parts:
        assert part in result.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_every_help_ends_with_an_example(run, verb):
    text = run(verb, "--help").stdout
    assert f"Example: tasknorm data {verb}" in " ".join(text.split())


def test_list_says_what_is_here_and_what_is_missing(run):
    lines = run("list").stdout.splitlines()
    assert any(line.split()[:2] == ["pets", "here"] for line in lines)
    assert any(line.split()[:2] == ["omniglot", "missing"] and "download omniglot" in line for line in lines)
    rows = json.loads(run("list", "--json").stdout)["sources"]
    assert {"name": "glyphs", "state": "here"}.items() <= rows[0].items()


def test_import_check_show_and_sample_go_together(run, tmp_path):
    write_pets(tmp_path / "mine", classes=10, images=20)
    splits = tmp_path / "mine.splits.json"
    result = run("import", tmp_path / "mine", "--as", "beasts", "--splits", splits)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0] == "train: 10 classes, 200 images"
    assert run("check", "beasts").stdout == "beasts: 200 images read, 0 bad\n"
    assert run("show", "beasts", "--classes", 3, "--images", 4).stdout == "beasts.png\n"
    with Image.open(tmp_path / "beasts.png") as page:
        assert page.size == (150 + 4 * 58, 3 * 58)
    found = json.loads(run("sample", "beasts", "--episodes", 50, "--seed", 1, "--json").stdout)
    assert set(found) == {"way", "context", "shot", "target"}
    assert all({"mean", "std", "quantiles"} == set(value) for value in found.values())
    assert 5 <= found["way"]["mean"] <= 10


def test_import_as_records_makes_a_spec_to_sample_from(run, tmp_path):
    result = run("import", tmp_path / "data" / "pets", "--as", "recorded", "--records")
    assert result.exit_code == 0, result.stderr
    spec = tmp_path / "data" / "recorded" / "dataset_spec.json"
    result = run("sample", spec, "--way", 5, "--shot", 2, "--targets", 3, "--episodes", 9)
    assert result.exit_code == 0, result.stderr
    assert "context  mean    10.00" in result.stdout
    assert run("check", "recorded").exit_code == 0


def test_sampling_repeats_and_the_embedded_data_needs_no_files(run):
    words = ("sample", "glyphs", "--split", "test", "--episodes", 20, "--json")
    assert run(*words).stdout == run(*words).stdout
    assert run(*words).stdout != run(*words, "--seed", 1).stdout


def test_check_names_each_bad_file(run, tmp_path):
    (tmp_path / "data" / "pets" / "pet03" / "2.png").write_bytes(b"")
    (tmp_path / "data" / "pets" / "pet09" / "0.png").write_bytes(encoded(noise(0, 9, 9, 3))[:99])
    result = run("check", "pets")
    assert result.exit_code == 1
    assert result.stdout == "pets: 120 images read, 2 bad\n"
    assert "pet03/2.png" in result.stderr
    assert "pet09/0.png" in result.stderr


def test_errors_are_one_message_with_the_rule_and_the_fix(run, tmp_path):
    failed(run("check", "nothing"), "nothing", "tasknorm data list")
    failed(run("show", "pets", "--split", "tset"), "train, valid, test", "'tset'")
    failed(run("show", "pets", "--out", tmp_path / "no" / "folder.png"), "folder.png")
    failed(run("import", tmp_path / "data" / "pets", "--as", "pets"), "'pets' is taken")
    failed(run("download", "mini_imagenet"), "no download is known for")
    failed(run("sample", "pets", "--way", 50), "50 ways needs as many classes")
    failed(run("show", "pets", "--out", tmp_path / "pets.foo"), "the picture's name must end in .png, got .foo")
    (tmp_path / "bad.json").write_text("{")
    failed(run("sample", tmp_path / "bad.json"), "bad.json")


@pytest.fixture
def server(tmp_path):
    """The two files of MNIST on a server of this machine."""
    write_mnist(tmp_path / "served")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "served")) as served:
        threading.Thread(target=served.serve_forever).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


def test_download_makes_a_data_set_that_is_there(run, server, monkeypatch):
    files = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte")
    monkeypatch.setitem(ADDRESSES, "mnist", tuple(Address(f"{server}/{file}") for file in files))
    result = run("download", "mnist")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip().endswith("mnist")
    assert run("check", "mnist").stdout == "mnist: 40 images read, 0 bad\n"
    assert "mnist                here" in run("list").stdout


def test_a_download_with_a_wrong_checksum_is_one_error_and_leaves_no_data_set(run, server, monkeypatch, tmp_path):
    address = Address(f"{server}/t10k-labels-idx1-ubyte", md5="0" * 32)
    monkeypatch.setitem(ADDRESSES, "mnist", (address,))
    result = run("download", "mnist")
    assert result.exit_code == 2
    assert "MD5" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert [path for path in (tmp_path / "data" / "mnist").iterdir() if path.suffix != ".part"] == []


def test_importing_the_package_loads_nothing_heavy():
    script = (
        "import sys, torch\n"
        "before = set(sys.modules)\n"
        "import tasknorm\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new & {'PIL', 'matplotlib', 'typer', 'rich', 'pydantic'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_check_verifies_the_caches(run, tmp_path):
    Cached(opened("pets", tmp_path / "data"), 8)
    assert run("check", "pets").exit_code == 0
    (array,) = (tmp_path / "cache").glob("*.npy")
    content = bytearray(array.read_bytes())
    content[200] ^= 4
    array.write_bytes(content)
    result = run("check", "pets")
    assert result.exit_code == 1
    assert result.stdout == "pets: 120 images read, 0 bad, 1 damaged caches\n"
    assert f"{array}, image data from byte 0: the checksum is wrong" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no UTF-8")
def test_names_that_are_no_utf_8_are_printed(run, tmp_path):
    folder = os.path.join(os.fsencode(tmp_path), b"data", b"caf\xe9", b"cl\xe9")
    os.makedirs(folder)
    with open(os.path.join(folder, b"0.png"), "wb") as file:
        file.write(encoded(noise(0, 5, 5, 3)))
    result = run("list")
    assert result.exception is None
    assert r"caf\udce9" in result.stdout
    done = subprocess.run(
        [sys.executable, "-m", "tasknorm", "data", "list"],
        capture_output=True,
        check=False,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr
