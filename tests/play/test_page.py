"""The page in a real browser, by real pointer events."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from drawings import Page, on_images, served, tasks
from support.data_files import write_pets
from support.runs import run, tiny
from tasknorm.play import Server, of_run, prepared_drawing
from tasknorm.runs import Adapter

SQUARE = [[(0.3, 0.3), (0.7, 0.3), (0.7, 0.7), (0.3, 0.7), (0.3, 0.3)]]
CROSS = [[(0.2, 0.5), (0.8, 0.5)], [(0.5, 0.2), (0.5, 0.8)]]


class Watched(Page):
    """The page, and all that it says and asks for."""

    def __init__(self, page: Any, address: str) -> None:
        self.troubles: list[str] = []
        self.questions: list[dict[str, Any]] = []
        page.on("console", lambda message: self.troubles.append(message.text))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", lambda request: self._note(request, address))
        super().__init__(page, address)

    def _note(self, request: Any, address: str) -> None:
        if request.method == "POST":
            self.questions.append(json.loads(request.post_data))
        if not request.url.startswith((address, "data:", "blob:")):
            self.troubles.append(request.url)

    def images(self, which: str) -> np.ndarray:
        """The images of the last question, `(images, 28, 28)`."""
        content = base64.b64decode(self.questions[-1][which])
        return np.frombuffer(content, np.uint8).reshape(-1, 28, 28)

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).inner_text())


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Watched]:
    found = browser.new_page(viewport={"width": 1280, "height": 900})
    watched = Watched(found, server.address)
    yield watched
    assert watched.troubles == []  # nothing on the console, and nothing is fetched from elsewhere
    found.close()


@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [(1280, 900, "light"), (1280, 900, "dark"), (390, 844, "dark"), (320, 640, "light")],
    ids=["desktop", "dark", "phone", "small"],
)
def test_it_works_at_once(browser: Any, server: Server, width: int, height: int, scheme: str) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=width < 600, is_mobile=width < 600
    )
    page = Watched(context.new_page(), server.address)
    page.draw(CROSS)
    found = page.answers()
    assert set(found) == {"TaskNorm-I", "TBN", "CBN"}
    assert all(len(row) == 5 and abs(sum(row) - 1) < 1e-3 for row in found.values())
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    for each in page.page.locator("h1, h2, h3, p, li, button:not(table *), label, legend, figure svg").all():
        box = each.bounding_box()
        assert box is None or box["x"] + box["width"] <= width + 1, each.inner_text()
    assert len(page.page.screenshot(full_page=True)) > 20_000
    ground = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 3 * 128) is (scheme == "dark")
    assert page.troubles == []
    context.close()


def test_classes_light_up_as_the_pen_moves(page: Watched) -> None:
    mouse, box = page.page.mouse, page.page.locator("#pad").bounding_box()
    before = len(page.questions)
    mouse.move(box["x"] + 150, box["y"] + 80)
    mouse.down()
    for i in range(20):
        mouse.move(box["x"] + 150, box["y"] + 80 + 10 * i)
    page.page.wait_for_selector("[data-norm='TaskNorm-I'] .row.top")
    assert len(page.questions) > before
    mouse.up()
    page.settle()
    assert page.text("#spoken").startswith("TaskNorm-I: ")


@pytest.mark.realdata
def test_real_strokes_are_recognised_as_their_images_are(page: Watched, data_root: Path) -> None:
    """5 classes; 10 targets after 1 example of each, then the same 10 after 5."""
    (task,) = tasks(data_root, 1, shot=5, seed=3, targets=2)
    targets = [(label, drawing) for label, each in enumerate(task.targets) for drawing in each]
    right: dict[int, int] = {}
    for shot in (1, 5):
        if shot == 1:
            page.teach([each[:1] for each in task.examples])
        else:
            for label, each in enumerate(task.examples):
                page.choose(label)
                for drawing in each[1:]:
                    page.draw(drawing.strokes)
                    page.page.locator("#add").click()
            page.choose("target")
        right[shot] = sum(page.predicted(drawing)["TaskNorm-I"] == label for label, drawing in targets)
    expected = {
        shot: sum(on_images([type(task)([each[:shot] for each in task.examples], task.targets)])["TaskNorm-I"])
        for shot in (1, 5)
    }
    assert abs(right[1] + right[5] - expected[1] - expected[5]) <= 1
    assert right[5] >= 8


@pytest.mark.realdata
def test_a_drawing_is_prepared_as_its_image_is(page: Watched, data_root: Path, tmp_path: Path) -> None:
    """Pointer, picture file and Python give the net nearly the same bytes."""
    (task,) = tasks(data_root, 1, shot=1, seed=5, targets=1)
    for (drawing,) in task.examples:
        expected = (drawing.image[0].numpy() * 255).round()
        page.page.locator("#clear").click(force=True)
        page.choose("target")
        page.draw(drawing.strokes)
        page.settle()
        by_pointer = page.images("targets")[-1]
        assert np.abs(by_pointer - expected).mean() < 14
        assert np.corrcoef(by_pointer.ravel(), expected.ravel())[0, 1] > 0.93


def test_a_picture_file_is_prepared_as_in_python(page: Watched, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    paper = np.full((90, 120), 230, np.uint8)
    paper[20:70, 30:36] = 20
    paper[40:46, 30:100] = 60
    paper = (paper + random.integers(0, 9, paper.shape)).astype(np.uint8)
    Image.fromarray(paper).save(tmp_path / "bär 🐻.png")
    page.page.locator("#files").set_input_files(tmp_path / "bär 🐻.png")
    page.page.wait_for_selector("text=bär 🐻.png is the target now")
    page.settle()
    difference = page.images("targets")[-1].astype(int) - prepared_drawing(paper)
    assert np.abs(difference).max() <= 3
    (tmp_path / "no.png").write_bytes(b"no picture")
    page.page.locator("#files").set_input_files(tmp_path / "no.png")
    page.page.wait_for_selector("text=no.png is not a picture")
    Image.new("L", (20, 20), 200).save(tmp_path / "empty.png")
    page.page.locator("#files").set_input_files(tmp_path / "empty.png")
    page.page.wait_for_selector("text=empty.png shows no drawing")


def test_the_switch_shows_who_peeks(page: Watched) -> None:
    for how in ("all at once", "by class"):
        page.page.get_by_label(how).check(force=True)
        page.settle()
        moved = {
            norm: float(page.page.locator(f"#verdict [data-norm='{norm}']").get_attribute("data-moved"))
            for norm in page.answers()
        }
        assert moved["TBN"] > 0.01
        assert moved["TaskNorm-I"] < 1e-4
        assert moved["CBN"] < 1e-4
    page.page.get_by_label("one at a time").check(force=True)
    page.settle()
    assert "One at a time, nobody has neighbours" in page.text("#verdict")


def test_the_plot_follows_the_layer_and_the_norm(page: Watched) -> None:
    page.draw(SQUARE)
    page.settle()
    assert "alpha = 0." in page.text("#alpha")
    shown = set()
    for layer in "1234":
        page.page.locator("#layers").get_by_label(layer).check(force=True)
        page.settle()
        assert page.page.locator("#plot g.used").count() == 32
        shown.add(page.page.locator("#plot svg").inner_html())
    for norm in ("TBN", "CBN"):
        page.page.locator("#inside-norm").get_by_label(norm).check(force=True)
        page.settle()
        assert page.text("#alpha") == ""
        shown.add(page.page.locator("#plot svg").inner_html())
    assert len(shown) == 6


def test_all_but_drawing_can_be_done_by_keyboard(page: Watched) -> None:
    press = page.page.keyboard.press

    def to(selector: str) -> None:
        for _ in range(80):
            press("Tab")
            if page.page.locator(selector).evaluate("found => found === document.activeElement"):
                return
        raise AssertionError(f"{selector} cannot be reached by Tab")

    page.page.locator("h1").click()
    to("#start-empty")
    press("Enter")
    for _ in range(2):
        page.page.locator("#pad").focus()
        press("s")
        press("Enter")
    page.page.locator("[data-subject='0'] input").focus()
    press("ArrowRight")
    assert page.page.locator("[data-subject='1'] input").is_checked()
    to("#sample")
    press("Enter")
    page.page.locator("#add").focus()
    press("Enter")
    page.settle()
    assert page.text("[data-subject='0'] small").startswith("2")
    assert page.text("[data-subject='1'] small").startswith("1")


def test_undo_clear_and_limits(page: Watched) -> None:
    page.page.locator("#start-empty").click()
    assert page.page.locator("#add").is_disabled()
    for _ in range(8):
        page.page.locator("#new-class").click()
    assert page.page.locator("#new-class").count() == 0  # ten classes are the most
    page.draw(CROSS)
    page.page.locator("#undo").click()
    page.page.locator("#undo").click()
    assert page.page.locator("#undo").is_disabled()
    page.choose(0)
    for _ in range(21):
        page.page.locator("#sample").click()
        page.page.locator("#add").click()
    assert "has 20 examples, which is the most" in page.text("#message")
    page.page.locator("#class-name").fill("Ä <b>☃</b>")
    page.page.locator("#class-name").press("Tab")
    assert "Ä <b>☃</b>" in page.text("[data-subject='0']")


def test_a_finger_draws_and_does_not_scroll(browser: Any, server: Server) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = Watched(context.new_page(), server.address)
    page.page.locator("#pad").scroll_into_view_if_needed()
    box = page.page.locator("#pad").bounding_box()
    before = page.page.evaluate("scrollY")
    session = context.new_cdp_session(page.page)
    places = [{"x": box["x"] + 60, "y": box["y"] + 40 + 20 * i} for i in range(9)]
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": places[:1]})
    for place in places[1:]:
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [place]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.settle()
    page.page.wait_for_selector("#add:enabled")
    assert page.page.evaluate("scrollY") == before
    assert page.troubles == []
    context.close()


def png(array: np.ndarray) -> bytes:
    """The array as the content of a PNG file."""
    made = io.BytesIO()
    Image.fromarray(array).save(made, "PNG")
    return made.getvalue()


def test_dropped_files_become_examples(page: Watched) -> None:
    page.page.locator("#start-empty").click()
    paper = np.full((40, 40), 255, np.uint8)
    paper[10:30, 18:22] = 0
    content = base64.b64encode(png(paper)).decode()
    page.page.evaluate(
        """content => {
            const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
            const files = new DataTransfer();
            files.items.add(new File([bytes], "a.png", { type: "image/png" }));
            document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, cancelable: true }));
        }""",
        content,
    )
    page.page.wait_for_selector("text=A now has 1 example.")


@pytest.mark.parametrize("resize", [None, "crop"])
def test_a_run_of_photos(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resize: str | None) -> None:
    """Photos become what the run's own preparation makes of them, and the answers are its learner's."""
    monkeypatch.chdir(tmp_path)
    write_pets(tmp_path / "pets")
    few = {"image_size": 16, "iterations": 2, "validate_every": 0, "resize": resize, "scale": "centred"}
    settings = tiny(source=f"folder:{tmp_path / 'pets'}", norm="TaskNorm-I", **few)
    run(settings, tmp_path / "run")
    with served(of_run(tmp_path / "run", for_browser=False)) as server:
        page = Watched(browser.new_page(), server.address)
        files = [tmp_path / "pets" / name for name in ("pet00/0.png", "pet00/1.png", "pet01/3.png", "pet01/5.png")]
        page.page.locator("#files").set_input_files(files[:2])
        page.page.wait_for_selector("text=A now has 2 examples.")
        page.choose(1)
        page.page.locator("#files").set_input_files(files[2])
        page.page.wait_for_selector("text=B now has 1 example.")
        page.choose("target")
        page.page.locator("#files").set_input_files(files[3])
        page.page.wait_for_selector("text=5.png is the target now.")
        answers = page.answers()["TaskNorm-I"]
        adapter = Adapter(tmp_path / "run")
        prepared = adapter.preparation.pixels(files).numpy().astype(int)
        asked = [base64.b64decode(page.questions[-1][which]) for which in ("context", "targets")]
        sent = np.frombuffer(b"".join(asked), np.uint8).reshape(prepared.shape)
        assert np.abs(sent - prepared).max() <= 2
        predictor = adapter({"A": files[:2], "B": files[2:3]})
        expected = predictor(adapter.preparation(files[3:])).softmax(1)[0]
        np.testing.assert_allclose(answers, expected, atol=0.05)
        assert page.troubles == []
        page.page.close()
