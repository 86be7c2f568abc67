"""`tasknorm compare`: the main job, from the command to the page in a browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasknorm.compare import LEAST, fitting, planned
from tasknorm.errors import SettingsError
from tasknorm.report.comparison import Comparison
from tasknorm.runs import Speed, read_record

NORMS = ["TBN", "LN", "TaskNorm-I"]
WORDS = ("compare", "--norms", ",".join(NORMS), "--iterations", "3", "--tasks", "4", "--processes", "2")


def tasknorm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tasknorm", *words],
        capture_output=True, text=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a small comparison, and what it printed."""
    folder = tmp_path_factory.mktemp("compare")
    done = tasknorm(*WORDS, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_every_norm_is_in_the_table_with_its_label(compared: tuple[Path, str]) -> None:
    folder, printed = compared
    table = [line.split() for line in printed.splitlines() if line.startswith(" ")]
    lines = {words[0]: words for words in table if words and words[0] in NORMS}
    assert set(lines) == set(NORMS)
    assert {norm: "yes" in words for norm, words in lines.items()} == {"TBN": True, "LN": False, "TaskNorm-I": False}
    assert any(text.startswith(("Use LN", "Use TaskNorm-I")) for text in printed.splitlines())
    assert "TBN is transductive" in printed
    assert str(folder / "report.html") in printed


def test_what_is_shown_is_what_was_measured(compared: tuple[Path, str]) -> None:
    folder, _ = compared
    trained = sorted(path.parent.name for path in folder.glob("*/result.json"))
    assert trained == ["maml-CBN", "maml-LN", "maml-TaskNorm-I"]  # TBN, CBN and RN share a training
    comparison = Comparison([read_record(folder / name) for name in trained], NORMS)
    page = (folder / "report.html").read_text()
    for norm in NORMS:
        assert set(comparison.accuracies[norm]) == {"all", "example", "class"}
        assert all(str(score).replace(" ", "") in page for score in comparison.accuracies[norm].values())
    for norm in ("LN", "TaskNorm-I"):  # not transductive: not a single prediction differs
        assert len({row.accuracy for row in comparison.results[norm].values()}) == 1
    assert sum(comparison.ranks.values()) == pytest.approx(6)


def test_asked_again_it_answers_at_once_and_another_question_is_refused(compared: tuple[Path, str]) -> None:
    folder, printed = compared
    again = tasknorm(*WORDS, "--out", str(folder))
    assert again.returncode == 0
    assert again.stdout == printed
    other = tasknorm(*WORDS, "--shot", "2", "--out", str(folder))
    assert other.returncode == 2
    assert "shot=2 contradicts the run in" in other.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--norms", "TBN,Batch"), "unknown norm 'Batch'; known: "),
        (("--norms", "TBN,TBN"), "each norm to compare must be named once"),
        (("--learner", "reptile"), "learner must be one of"),
        (("--source", "nowhere"), "nowhere: there is no data set or path of this name"),
        (("--way", "200"), "200-way tasks need 200 classes, and its valid split has"),
        (("--budget", "0.1"), "budget is too short for"),
    ],
)
def test_bad_questions_get_clear_answers(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = tasknorm("compare", *words, "--out", str(tmp_path / "new"))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("new/*/config.json"))  # the corrected question is not refused


def test_the_budget_decides_how_long_each_training_is() -> None:
    runs = planned({"learner": "protonets", "way": 5, "test_tasks": 10}, ["CBN", "LN"], LEAST, Path("unused"))
    known = {runs[0].at(Path()).kind(): Speed(iteration=0.1, task=0.0, test=0.01)}
    one, two = (fitting(runs, known, 120.0, processes) for processes in (1, 2))
    assert 0.1 * 2 * one < 120 < 0.1 * 2 * two < 240
    assert fitting(runs, known, 240.0, 1) > one
    with pytest.raises(SettingsError, match=r"at least \d+\.\d minutes"):
        fitting(runs, known, 5.0, 1)


def test_cnaps_first_pretrains_its_extractor(tmp_path: Path) -> None:
    first, *rest = planned({"learner": "cnaps", "way": 5}, ["CBN", "LN"], LEAST, tmp_path)
    assert first.name == "pretraining"
    assert [run.needs for run in rest] == [("pretraining",)] * 2
    assert all(run.settings.pretrained == str(tmp_path / "pretraining" / "extractor.safetensors") for run in rest)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """A headless Chromium."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium here; on Debian: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="the page is looked at through playwright")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)], ids=["desktop", "phone"])
def test_the_page_in_a_real_browser(browser: object, compared: tuple[Path, str], width: int, height: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": height})  # type: ignore[attr-defined]
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: troubles.append(request.url) if "report.html" not in request.url else None)
    page.goto((compared[0] / "report.html").as_uri())
    picture = page.screenshot(path=str(compared[0] / f"report-{width}.png"), full_page=True)
    assert troubles == []  # nothing on the console, and the page asks for nothing but itself
    assert page.evaluate("document.documentElement.scrollWidth") == width  # tables scroll in their boxes, not the page
    assert [h.inner_text() for h in page.query_selector_all("h2")][:2] == [
        "Which norm?",
        "What if targets arrive one by one?",
    ]
    assert len(page.query_selector_all("tbody tr")) == len(NORMS)
    figures = page.query_selector_all("figure svg")
    assert len(figures) == 3
    for figure in figures:
        box = figure.bounding_box()
        assert box["width"] > 300
        assert box["height"] > 120
        assert figure.get_attribute("aria-label")
    assert len(picture) > 20_000  # an empty page is smaller
    for text in page.query_selector_all("p, li, dt, dd, h1, h2"):
        box = text.bounding_box()
        assert box is None or box["x"] + box["width"] <= width + 1, text.inner_text()
    page.close()
