"""What is released: the wheel alone works in an empty environment, holds what it must and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
PACKAGE = ROOT / "src" / "tasknorm"
DATA = (".toml", ".json", ".css", ".js", ".html", ".onnx", ".safetensors", ".typed")

USERS = ("tensorboard", "onnx", "hf", "ray", "serve")  # the extras for users; others are for us

needs_build = pytest.mark.skipif(
    find_spec("build") is None or find_spec("hatchling") is None, reason="needs build and hatchling, of the extra dev"
)


def done(*command: object, cwd: Path, **variables: str) -> str:
    """What a command prints, run without the variables that lead Python to this project; a failure shows its errors."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    result = subprocess.run(
        [*map(str, command)], cwd=cwd, env=kept | {"OMP_NUM_THREADS": "1"} | variables,
        capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sdist and of the wheel that is built from it, as `make dist` builds them."""
    folder = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@needs_build
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "src/tasknorm"], cwd=ROOT, capture_output=True, text=True).stdout
    ours = {path.removeprefix("src/") for path in tracked.split()} or {
        path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*") if path.suffix in (".py", *DATA)
    }
    about = f"tasknorm-{VERSION}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    rest = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert names == ours | {f"{about}/{name}" for name in rest}
    for name in ("report/published.json", "experiments/maml_results.toml", "play/weights/TBN.onnx", "py.typed"):
        assert f"tasknorm/{name}" in names
    assert {"tasknorm/play/page/index.html", "tasknorm/report/page.css"} <= names


@needs_build
def test_the_sdist_has_the_sources_and_no_rubbish(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "Makefile", "constraints.txt"}
    assert wanted | {"constraints-oldest.txt", "tests/test_release.py", "src/tasknorm/__init__.py"} <= names
    assert not [
        name for name in names if "__pycache__" in name or name.startswith(("site/", ".venv", "dist/", "demo/"))
    ]


@needs_build
def test_a_package_index_would_take_it(dist: Path) -> None:
    pytest.importorskip("twine", minversion="7")  # older ones do not know the metadata that hatchling writes
    assert done(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir(), cwd=dist).count("PASSED") == 2


@needs_build
def test_the_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        said = archive.read(f"tasknorm-{VERSION}.dist-info/METADATA").decode()
    assert f"\nVersion: {VERSION}\n" in said
    assert "\nLicense-Expression: MIT\n" in said
    assert "\nLicense-File: LICENSE\n" in said
    assert "License ::" not in said  # classifiers of licences are obsolete beside an expression
    assert "\nRequires-Python: >=3.11\n" in said


@needs_build
@pytest.mark.usefixtures("glyph_cache")
def test_the_wheel_alone_compares_norms_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    """An environment that sees this one's dependencies by a path, but not this project.

    Lines of a `.pth` file add a folder, but nobody reads the `.pth` files in there, by which an editable install is
    found; that the package cannot be imported before the wheel is installed is checked.
    """
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    site = Path(done(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    paths = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in paths))
    empty = tmp_path / "empty"
    empty.mkdir()
    found = "import importlib.util; print(importlib.util.find_spec('tasknorm'))"
    assert done(python, "-c", found, cwd=empty).strip() == "None"

    done(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=empty)
    told = "import tasknorm, torch; print(tasknorm.__version__); print(tasknorm.__file__)"
    version, file = done(python, "-c", told, cwd=empty).split()
    assert version == VERSION
    assert Path(file).is_relative_to(site)

    words = ("--norms", "TBN,TaskNorm-I", "--iterations", "2", "--tasks", "2", "--seeds", "1", "--processes", "1")
    command = (tmp_path / "venv" / "bin" / "tasknorm", "compare", "--learner", "maml", *words)
    out = done(*command, cwd=empty, COLUMNS="120")
    assert "TaskNorm-I" in out
    assert (empty / "comparison" / "report.html").is_file()
    assert [path.name for path in empty.iterdir()] == ["comparison"]
    listed = done(tmp_path / "venv" / "bin" / "tasknorm", "reproduce", "--list", cwd=empty)
    assert "tasknorm reproduce maml_results" in listed
    play = "from tasknorm.play import embedded, files_of; f = files_of(embedded(), endpoint=None, runtime=None)"
    checked = f"{play}; assert 'index.html' in f and 'graphs/TBN.onnx' in f"
    done(python, "-c", f"{checked}; from tasknorm.report import published_tables; published_tables()", cwd=empty)


def test_the_version_stands_in_one_place_and_others_follow() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", changes, re.MULTILINE)
    released = [(version, day) for version, day in headings if version != "Unreleased"]
    assert released[0][0] == VERSION
    assert all(date.fromisoformat(day) for _, day in released)
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == VERSION
    sources = [path.read_text() for path in PACKAGE.rglob("*.py")]
    assert not [text for text in sources if re.search(rf"[\"']{re.escape(VERSION)}[\"']", text)]


def test_the_citation_file_has_what_its_format_requires() -> None:
    """The required keys and the types of the Citation File Format 1.2.0, for the keys that we use."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"authors", "cff-version", "message", "title"} <= cited.keys()
    assert cited["cff-version"] == "1.2.0"
    assert cited["type"] in ("software", "dataset")
    assert cited["license"] == PROJECT["license"]
    assert isinstance(cited["version"], str)
    assert isinstance(cited["date-released"], date)
    assert str(cited["date-released"]) in (ROOT / "CHANGELOG.md").read_text()
    assert cited["keywords"] == PROJECT["keywords"]
    known = {"abstract", "authors", "cff-version", "date-released", "keywords", "license", "message"}
    assert cited.keys() <= known | {"preferred-citation", "title", "type", "version"}
    paper = cited["preferred-citation"]
    assert {"authors", "title", "type"} <= paper.keys()
    assert paper["type"] == "conference-paper"
    assert isinstance(paper["year"], int)
    assert isinstance(paper["conference"]["name"], str)
    people = [*cited["authors"], *paper["authors"]]
    for person in people:
        assert person.keys() in ({"name"}, {"family-names", "given-names"})
        assert all(isinstance(value, str) and value for value in person.values())


def test_the_oldest_versions_are_those_that_are_promised() -> None:
    """`constraints-oldest.txt` pins exactly the lower bounds of what users install, extras included."""
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    pinned = dict(line.partition("#")[0].strip().split("==") for line in lines if "==" in line.partition("#")[0])
    extras = PROJECT["optional-dependencies"]
    for promise in [*PROJECT["dependencies"], *(p for extra in USERS for p in extras[extra])]:
        name, _, bound = promise.partition(">=")
        assert re.fullmatch(rf"{re.escape(bound)}(\.0)*", pinned[name]), promise
