"""The page of a comparison, and the paper's, as readers see and use them: measured in Chromium."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from functools import cache

import pytest

from support.browser import MEASURE
from support.made_up_comparison import MAML, PROTONETS, comparison
from support.made_up_records import small, variable
from tasknorm.norms import NORMS
from tasknorm.report import render, write_page, write_report
from tasknorm.report.comparison_page import html

NAME = '<script>document.title = "gone"<img src=x onerror=alert(1)>' + "ü😀x" * 20
EVIL = f"folder:/home/me/</title></script>/{NAME}"
MANY = {norm: (0.5 + 0.04 * place,) for place, norm in enumerate(NORMS) if norm != "Baseline"} | {"TBN": (0.97, 0.4)}
SIZES = [(1280, 800), (768, 1024), (390, 844)]


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs Chromium, to look at the page")
    playwright = pytest.importorskip("playwright.sync_api", reason="the page is looked at through playwright")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


def written(name, folder):
    """The path of a page."""
    if name == "the paper's":
        write_report([*variable("cnaps_meta_dataset"), *small("protonets_results")], folder / "report")
        return folder / "report" / "report.html"
    call = f"tasknorm compare --source '{EVIL}'"
    made = {
        "one learner": lambda: [comparison()],
        "two learners": lambda: [comparison(), comparison(PROTONETS, learner="protonets")],
        "all norms, one seed": lambda: [comparison(MANY, seeds=1, source=EVIL, call=call)],
        "two norms": lambda: [comparison({"LN": (0.9,), "IN": (0.901,)}, seeds=2)],
        "one norm": lambda: [comparison({"TBN": (0.9, 0.3, 0.2)}, seeds=2)],
        "alike": lambda: [comparison(dict.fromkeys(MAML, (1.0,)))],
    }
    write_page(folder / f"{name}.html", made[name]())
    return folder / f"{name}.html"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Writes a page the first time that its name is asked for; returns its path."""
    folder = tmp_path_factory.mktemp("a folder, ümläut")
    return cache(lambda name: written(name, folder))


@pytest.fixture
def opened(browser, pages):
    """Opens a page by its name; what goes wrong on it is in `troubles` at the end."""
    contexts, troubles = [], []

    def open_page(name, width=1280, height=800, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.on("request", lambda r: troubles.append(r.url) if r.url not in (page_url, "data:,") else None)
        page_url = pages(name).as_uri()
        page.goto(page_url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []  # nothing on the console, and no request but for the page itself


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("name", ["two learners", "all norms, one seed", "the paper's"])
def test_all_can_be_read_at_any_width_light_and_dark(opened, name, width, height, scheme):
    page = opened(name, width, height, color_scheme=scheme)
    assert page.evaluate(MEASURE) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) > 380) == (scheme == "light")


@pytest.mark.parametrize("name", ["two norms", "one norm", "alike"])
def test_unusual_comparisons_can_be_read(opened, name):
    for width, height in SIZES:
        assert opened(name, width, height).evaluate(MEASURE) == []


def test_tables_behind_the_pictures_can_be_read_on_a_phone(opened):
    page = opened("one learner", 390, 844)
    page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    assert page.evaluate(MEASURE) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.locator("details table").count() == 4


def test_eleven_columns_fit_on_a_desktop_and_scroll_in_their_box_on_a_phone(opened):
    table = "#cnaps_meta_dataset .scroll"
    widths = "(e) => [e.scrollWidth, e.clientWidth, parseFloat(getComputedStyle(e.querySelector('td')).fontSize)]"
    whole, box, size = opened("the paper's").locator(table).evaluate(widths)
    assert whole <= box
    assert size >= 13
    whole, box, size = opened("the paper's", 390, 844).locator(table).evaluate(widths)
    assert whole > box
    assert size >= 13


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_claims_are_never_behind_a_scroll(opened, width, height):
    whole, box = (
        opened("the paper's", width, height)
        .locator("#claims .scroll")
        .evaluate("(e) => [e.scrollWidth, e.clientWidth]")
    )
    assert whole <= box


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_verdict_and_the_picture_are_above_the_fold(opened, width, height):
    page = opened("one learner", width, height)
    said = page.locator("h2.headline")
    assert said.inner_text().replace("\N{NON-BREAKING HYPHEN}", "-").startswith("Use MetaBN")
    assert said.bounding_box()["y"] + said.bounding_box()["height"] < height
    marks = page.locator(".answer svg:visible .mark")
    assert marks.count() == len(MAML)
    places = [marks.nth(n).bounding_box() for n in range(len(MAML))]
    assert sum(place["y"] + place["height"] <= height for place in places) >= (8 if width == 1280 else 5)


def test_transductive_norms_are_hollow_and_fall(opened):
    page = opened("one learner")
    marks = page.locator(".answer svg:visible")
    assert marks.locator(".hollow").count() == marks.locator(".fall").count() == 1
    tbn = marks.locator('[data-norm="TBN"]')
    assert tbn.locator(".hollow").count() == 1
    assert "points one by one" in tbn.text_content()
    assert "transductive" in tbn.get_attribute("aria-label")


def lit(page):
    """The norms that are highlighted; a line for several norms is, if one of them is."""
    on = page.evaluate("[...new Set([...document.querySelectorAll('.on')].map((e) => e.dataset.norm))]")
    on = [norm for norm in on if " " not in norm]
    assert page.evaluate("document.documentElement.classList.contains('chosen')") == bool(on)
    return on


def test_pointing_at_a_norm_highlights_it_everywhere(opened):
    page = opened("two learners")
    assert lit(page) == []
    page.locator('.answer svg:visible [data-norm="RN"] .name').first.hover()
    assert lit(page) == ["RN"]
    every = page.locator('[data-norm="RN"]')
    assert every.count() > 10
    assert all(every.nth(n).evaluate("(e) => e.classList.contains('on')") for n in range(every.count()))
    page.wait_for_timeout(200)
    opacity = "(e) => Number(getComputedStyle(e).opacity)"
    assert page.locator('svg:visible [data-norm="LN"]').first.evaluate(opacity) < 0.3
    assert page.locator('svg:visible [data-norm="RN"]').first.evaluate(opacity) == 1
    page.locator('svg:visible [data-norm$="TBN CBN"] .name').first.hover()
    assert set(lit(page)) == {"TBN", "CBN", "RN"}  # they share a training
    page.mouse.move(5, 5)
    assert lit(page) == []


def test_tapping_keeps_a_norm_until_the_next_tap(opened):
    page = opened("one learner", 390, 844, has_touch=True, is_mobile=True)
    button = page.locator('.norms [data-norm="LN"]')
    button.tap()
    assert lit(page) == ["LN"]
    assert button.get_attribute("aria-pressed") == "true"
    page.locator('.answer svg:visible [data-norm="IN"] .name').tap()
    assert lit(page) == ["IN"]
    page.locator("h2.headline").tap()
    assert lit(page) == []


def test_a_keyboard_reaches_every_norm(opened):
    page = opened("one learner")
    names = []
    for _ in range(5 + len(MAML)):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.dataset.norm ?? ''"))
        assert lit(page) == [names[-1]] * bool(names[-1])
    assert set(MAML) <= set(names)
    said = page.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent")
    assert said
    page.locator('.answer svg:visible [data-norm="CBN"]').focus()
    page.keyboard.press("Enter")
    page.locator("header a").first.focus()
    assert lit(page) == ["CBN"]
    page.keyboard.press("Escape")
    assert lit(page) == []


def column(page, table, place):
    texts = "(rows, n) => rows.map((r) => r.cells[n].textContent)"
    cells = page.locator(f"{table} tbody tr").evaluate_all(texts, place)
    return [float(re.match(r"-?[\d.]+", cell)[0]) for cell in cells]


def test_tables_sort(opened):
    page = opened("one learner")
    table = "figure.table[id$=glyphs-5-way-1-shot-table]"
    heading = page.locator(f"{table} thead th").nth(1)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert column(page, table, 1) == sorted(column(page, table, 1), reverse=True)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert column(page, table, 1) == sorted(column(page, table, 1))
    page.locator(f"{table} thead th button").first.click()
    names = page.locator(f"{table} tbody th").all_inner_texts()
    assert names == sorted(names, key=str.lower)
    assert heading.get_attribute("aria-sort") is None


def test_sorting_keeps_the_papers_lines_below_ours_and_ranks_last(opened):
    page = opened("the paper's")
    rows = "(rows) => rows.map((r) => [r.querySelector('th')?.textContent ?? '', r.className.split(' ')[0]])"
    before = page.locator("#protonets_results tbody tr").evaluate_all(rows)
    page.locator("#protonets_results thead button").nth(0).click()
    after = page.locator("#protonets_results tbody tr").evaluate_all(rows)
    assert after != before
    assert sorted(after) == sorted(before)
    last = [row for row in before if row[0] == "Average rank" or (not row[0] and row[1] == "rank")]
    assert after[-len(last) :] == last
    assert [kind for _, kind in after[: -len(last)]] == ["ours", "paper"] * ((len(after) - len(last)) // 2)


def test_tables_copy_as_they_stand(opened, browser):
    found = comparison()
    table = replace(found.table(), name="section-maml-on-glyphs-5-way-1-shot-table")
    page = opened("one learner", permissions=["clipboard-read", "clipboard-write"])
    place = page.locator(f"#{table.name}")
    wanted = {"Markdown": render.markdown(table) + "\n", "LaTeX": render.latex(table) + "\n", "CSV": render.csv(table)}
    for name, text in wanted.items():
        place.get_by_role("button", name=name).click()
        place.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == text
        assert page.locator(".status").inner_text() == f"Copied as {name}"
        place.get_by_role("button", name=name).wait_for()
    place.locator("thead button").first.click()
    place.get_by_role("button", name="CSV").click()
    place.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert sorted(copied) == sorted(render.csv(table).splitlines())
    assert copied[1].startswith("CBN,")
    page.locator("#made button").click()
    page.locator("#made").get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == found.command


def test_the_scheme_can_be_switched_and_is_remembered(opened):
    page = opened("one learner", color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    assert page.evaluate(background) == dark
    assert page.evaluate(MEASURE) == []


def test_paper_is_white_and_has_no_buttons(opened):
    page = opened("one learner", 794, 1123, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("button:visible:not(thead button)").count() == 0
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
    assert page.evaluate("document.documentElement.scrollWidth") == 794


def test_without_its_script_the_page_says_as_much(opened):
    page = opened("one learner", java_script_enabled=False)
    assert page.locator(".answer svg:visible .mark").count() == len(MAML)
    assert page.locator("button.scheme:visible").count() == 0


def test_names_of_strangers_stay_text(opened):
    page = opened("all norms, one seed")
    assert page.title() != "gone"
    assert page.locator("img").count() == 0
    assert page.locator(".kicker").inner_text() == f"MAML on folder:{NAME}, 5-way 1-shot"
    assert EVIL in page.locator("#made code").inner_text()


def test_the_end_says_how_it_was_made():
    found = comparison(call="tasknorm compare --learner maml")
    text = html([found])
    assert f"<code>{found.command}</code>" in text
    assert "tasknorm 0.1.0, torch 2.13.0, python" in text
    assert "<dt>seeds</dt><dd>0, 1, 2</dd>" in text
    assert all(f"<dt>{name}</dt>" in text for name in found.spent)


def test_a_learner_without_training_has_no_curves():
    found = comparison({"LN": (0.9,), "IN": (0.8,)})
    none = {"curve": {"iteration": [], "loss": [], "accuracy": [], "seconds": []}}
    rounds = [[replace(record, result=record.result | none) for record in records] for records in found.rounds]
    text = html([replace(found, rounds=rounds)])
    assert "How fast do they learn?" not in text
    assert "What does it cost?" in text
