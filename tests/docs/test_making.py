"""The pages that are generated, and the drawings: nothing in them is stale, left out or untrue."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest
import torch

import tasknorm
from making.assemble import assemble, check_navigation
from making.command_line import command_line_page
from making.links import ROOT, with_site_links
from making.paper import paper_pages, sections
from making.pictures import FOLDER, PICTURES
from making.pictures.measured import CHANNELS, IMAGES, MODES, Mode, feeds, role, running_weights, weights
from making.pictures.moments import kind_of, measured, words
from making.pictures.plots import demo_rows
from making.reference import TOP, doors, public_names, reference_pages
from tasknorm import NORMS
from tasknorm.cli import VERBS
from tasknorm.settings import Settings
from tasknorm.training import RunFolder


@pytest.mark.parametrize("module", ["docstrings", "notebooks", "pictures.moments", "pictures.svg"])
def test_examples_in_docstrings(module: str) -> None:
    if module == "docstrings":
        pytest.importorskip("griffe")
    found = doctest.testmod(importlib.import_module(f"making.{module}"))
    assert found.attempted > 0
    assert not found.failed


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_its_code_draws(name: str) -> None:
    kept = (FOLDER / f"{name}.svg").read_text()
    assert kept == PICTURES[name](), "draw it anew: PYTHONPATH=docs python -m making.pictures"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("label", NORMS)
def test_the_figure_of_moments_shows_what_the_norms_do(label: str, mode: Mode) -> None:
    """For each plane that may be chosen: the planes that are filled are those whose pixels feed its moments."""
    fed, weight, running = feeds(label, mode), weights(label, mode), running_weights(label, mode)
    for image in range(IMAGES):
        roles = measured()[label][mode][kind_of(image)]
        for channel in range(CHANNELS):
            shown = torch.zeros(IMAGES, CHANNELS, dtype=torch.float64)
            for other in range(IMAGES):
                for of in range(CHANNELS):
                    shown[other, of] = roles.get(role(image, channel, other, of) or "", 0)
            assert torch.allclose(weight[image, channel], shown, atol=1e-4)
            assert torch.equal(fed[image, channel].flatten(2).all(-1), shown > 0)
            assert torch.equal(fed[image, channel].flatten(2).any(-1), shown > 0)
            assert running[image, channel].item() == pytest.approx(roles.get("running", 0), abs=1e-4)
            assert (weight[image, channel].sum() + running[image, channel]).item() == pytest.approx(1)


@pytest.mark.parametrize("label", NORMS)
def test_who_peeks_in_the_figure_is_who_is_transductive(label: str) -> None:
    assert ("targets" in measured()[label]["test"]["target"]) is NORMS[label].transductive


def test_the_words_of_the_figure_add_up() -> None:
    for modes in measured().values():
        for kinds in modes.values():
            for kind, roles in kinds.items():
                assert sum(int(re.findall(r"(\d+) %", line)[0]) for line in words(kind, roles)) in (99, 100, 101)


def test_the_first_picture_has_the_numbers_of_the_demo() -> None:
    printed = (ROOT / "results" / "demo.txt").read_text().splitlines()
    (row,) = [line.split() for line in printed if line.startswith(" TBN ")]
    numbers = tuple(float(word.partition("±")[0]) for word in row[1:3])
    assert {norm: (a, b) for norm, a, b in demo_rows()}["TBN"] == numbers
    drawn = (ROOT / "docs" / "pictures" / "demo.svg").read_text()
    assert all(f">{number}<" in drawn for number in numbers)
    assert len(demo_rows()) == 8


def test_every_public_name_has_its_place_in_the_reference() -> None:
    pages = reference_pages()
    rooms = {f"{TOP}.{path.parent.name}" for path in Path(tasknorm.__file__).parent.glob("*/__init__.py")}
    assert set(doors()) == {TOP, *rooms} - {f"{TOP}.cli"}
    for room, door in doors().items():
        page = pages[f"reference/{room.rpartition('.')[2]}.md"]
        assert public_names(door) == importlib.import_module(room).__all__
        for name in public_names(door):
            assert f"::: {room}.{name}\n" in page or f"[`{name}`][{TOP}.{name}]" in page, name


def test_every_flag_is_in_the_command_line_page() -> None:
    page = command_line_page()
    for verb in VERBS:
        assert f"tasknorm {verb}" in page
    for name in Settings.fields():
        assert f"--{name.replace('_', '-')}" in page


def test_every_file_of_a_run_is_in_the_page_of_formats() -> None:
    page = (ROOT / "docs" / "reference" / "formats.md").read_text()
    files = RunFolder(Path("run"))
    for name, kind in vars(RunFolder).items():
        if isinstance(kind, property) and name not in ("in_use",):
            assert f"`{getattr(files, name).name}" in page, name


def test_every_claim_of_the_report_is_on_its_page() -> None:
    page = paper_pages()["paper/index.md"]
    rows = [line for line in sections()["Claims"].splitlines() if "holds**" in line or "hold**" in line]
    assert len(rows) == page.count("!!! ") > 10
    assert page.count("!!! failure") == sum("✗" in row for row in rows)
    numbers = re.compile(r"\d+\.\d+")
    shown = page.partition("- runs")[2].partition("- Accuracies")[0]
    assert sorted(numbers.findall(shown)) == sorted(numbers.findall("".join(rows)))


def test_every_page_is_in_the_navigation_and_every_entry_a_page(tmp_path: Path) -> None:
    assert assemble(tmp_path) > 60
    pages = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.md")}
    with pytest.raises(ValueError, match=r"no menu leads to more.md; correct `nav` in mkdocs.yml"):
        check_navigation({*pages, "more.md"})
    with pytest.raises(ValueError, match=r"there is no page guide.md; correct `nav` in mkdocs.yml"):
        check_navigation(pages - {"guide.md"})


def test_links_to_files_become_links_to_pages() -> None:
    wanted: set[str] = set()
    text = "[a](../benchmarks/maml.py) [b](data.md#x) [c](https://a.b)\n\n```\n[d](nothing.py)\n```\n"
    changed = with_site_links(text, "docs/guide.md", "guide.md", wanted)
    assert changed == text.replace("../benchmarks/maml.py", "code/benchmarks/maml.py.md")
    assert wanted == {"benchmarks/maml.py"}
    example = with_site_links("[a](../examples/04_your_own_norm.py)", "docs/guide.md", "guide.md", wanted)
    assert example == "[a](examples/04_your_own_norm.md)"
    assert wanted == {"benchmarks/maml.py"}
    with pytest.raises(ValueError, match=r"docs/guide.md: the link to 'nothing.py' leads to no file; correct it"):
        with_site_links("[d](nothing.py)", "docs/guide.md", "guide.md", wanted)
