"""Draw Omniglot's strokes on the page with a real pointer, and compare with the learner on Omniglot's images.

    python benchmarks/drawings.py --tasks 20 --json > results/drawings.json

A task has 5 characters, of any of the alphabets whose strokes are there, with 1 or 5 examples and 3 targets each. The
page is driven in Chromium by pointer events that follow the pen of Omniglot's drawers, one target after the other. The
learner gets the images of the same drawings, prepared by `tasknorm.play.prepared_drawing`. Needs `omniglot.zip` and
`omniglot_strokes.zip` in the data folder (TASKNORM_DATA).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tasknorm import Episode
from tasknorm.play import Playable, Server, embedded, embedded_learner, prepared_drawing

WAY, TARGETS, SIDE = 5, 3, 105
NORMS = ("TaskNorm-I", "TBN", "CBN")

Stroke = list[tuple[float, float]]  # from 0 to 1, y downwards


@dataclass(frozen=True)
class Drawing:
    """One drawing: the pen's strokes, and the image that Omniglot made of them."""

    strokes: list[Stroke]
    image: Tensor


@dataclass(frozen=True)
class Task:
    """Drawings by class: examples, and targets."""

    examples: list[list[Drawing]]
    targets: list[list[Drawing]]

    @property
    def episode(self) -> Episode:
        """The task as images."""
        parts = [(self._images(part), self._labels(part)) for part in (self.examples, self.targets)]
        return Episode(*parts[0], *parts[1])

    def _images(self, part: list[list[Drawing]]) -> Tensor:
        return torch.stack([drawing.image for each in part for drawing in each])

    def _labels(self, part: list[list[Drawing]]) -> Tensor:
        return torch.tensor([label for label, each in enumerate(part) for _ in each])


def tasks(root: Path, count: int, shot: int, seed: int = 0, targets: int = TARGETS) -> Iterator[Task]:
    """Tasks of Omniglot's drawings."""
    random = np.random.default_rng([seed, shot])
    with zipfile.ZipFile(root / "omniglot.zip") as images, zipfile.ZipFile(root / "omniglot_strokes.zip") as pens:
        pictures = {_key(name): name for name in images.namelist() if name.endswith(".png")}
        characters: dict[str, list[str]] = {}
        for name in sorted(pens.namelist()):
            if name.endswith(".txt"):
                characters.setdefault(_key(name).rpartition("/")[0], []).append(name)
        for _ in range(count):
            chosen = random.choice(sorted(characters), WAY, replace=False)
            drawn = []
            for character in chosen:
                names = random.permutation(characters[character])[: shot + targets]
                drawn.append([_drawing(pens.read(name), images.read(pictures[_key(name)])) for name in names])
            yield Task([each[:shot] for each in drawn], [each[shot:] for each in drawn])


def _key(name: str) -> str:
    """Alphabet, character and drawing."""
    return "/".join(name.rpartition(".")[0].split("/")[-3:])


def _drawing(pen: bytes, image: bytes) -> Drawing:
    strokes: list[Stroke] = [[]]
    for line in pen.decode().splitlines():
        if line == "BREAK":
            strokes.append([])
        elif line != "START":
            x, y, _ = map(float, line.split(","))
            strokes[-1].append(((x + 0.5) / SIDE, (0.5 - y) / SIDE))
    picture = prepared_drawing(np.asarray(Image.open(io.BytesIO(image)).convert("L")))
    return Drawing([_thinned(stroke) for stroke in strokes if stroke], torch.from_numpy(picture)[None].float() / 255)


def _thinned(stroke: Stroke) -> Stroke:
    """The stroke without points that lie within 1 % of the pad's side of the one before; its ends stay."""
    kept = stroke[:1]
    for x, y in stroke[1:]:
        if abs(x - kept[-1][0]) + abs(y - kept[-1][1]) > 0.01:
            kept.append((x, y))
    return kept if kept[-1] == stroke[-1] else [*kept, stroke[-1]]


class Page:
    """The page in a browser, as a person uses it: with a pointer.

    Args:
        page: playwright's page.
        address: where it is served.
    """

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        page.goto(address)
        self.settle()

    def settle(self) -> None:
        """Wait until the page has computed all answers."""
        self.page.wait_for_selector("body[data-state=ready]", timeout=60_000)

    def draw(self, strokes: Sequence[Stroke]) -> None:
        """Draw strokes on the pad."""
        pad = self.page.locator("#pad")
        pad.scroll_into_view_if_needed()
        box, mouse = pad.bounding_box(), self.page.mouse
        for stroke in strokes:
            places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
            mouse.move(*places[0])
            mouse.down()
            for place in places[1:]:
                mouse.move(*place)
            mouse.up()

    def choose(self, subject: int | str) -> None:
        """Say what is drawn next: an example of a class, or a target."""
        self.page.locator(f"[data-subject='{subject}'] input").check()

    def teach(self, examples: Sequence[Sequence[Drawing]]) -> None:
        """Begin anew, and draw all examples."""
        self.page.locator("#start-empty").click()
        for _ in examples[2:]:
            self.page.locator("#new-class").click()
        for label, drawings in enumerate(examples):
            self.choose(label)
            for drawing in drawings:
                self.draw(drawing.strokes)
                self.page.locator("#add").click()
        self.choose("target")

    def answers(self) -> dict[str, list[float]]:
        """The probabilities that each norm shows, by class."""
        self.settle()
        rows = self.page.locator("[data-norm] .row")
        found = rows.evaluate_all(
            "rows => rows.map(r => [r.closest('[data-norm]').dataset.norm, r.dataset.probability])"
        )
        probabilities: dict[str, list[float]] = {}
        for norm, probability in found:
            probabilities.setdefault(norm, []).append(float(probability))
        return probabilities

    def predicted(self, drawing: Drawing) -> dict[str, int]:
        """Draw a target alone: the class that each norm gives it."""
        if self.page.locator("#clear").is_enabled():
            self.page.locator("#clear").click()
        self.draw(drawing.strokes)
        return {norm: int(np.argmax(row)) for norm, row in self.answers().items()}


@contextmanager
def served(playable: Playable) -> Iterator[Server]:
    """A server of the page, in a thread."""
    server = Server(playable)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def opened_page(width: int = 1280, height: int = 900) -> Iterator[Page]:
    """The page of the embedded learners, served and opened in Chromium."""
    from playwright.sync_api import sync_playwright

    with served(embedded()) as server, sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield Page(browser.new_page(viewport={"width": width, "height": height}), server.address)
        browser.close()


def on_page(page: Page, asked: Sequence[Task]) -> dict[str, list[bool]]:
    """Whether each target was recognised on the page, by norm."""
    right: dict[str, list[bool]] = {norm: [] for norm in NORMS}
    for task in asked:
        page.teach(task.examples)
        for label, drawings in enumerate(task.targets):
            for drawing in drawings:
                for norm, predicted in page.predicted(drawing).items():
                    right[norm].append(predicted == label)
    return right


@torch.no_grad()
def on_images(asked: Sequence[Task]) -> dict[str, list[bool]]:
    """Whether the learner recognises the images of the same targets, which come one at a time."""
    right: dict[str, list[bool]] = {}
    for norm in NORMS:
        learner = embedded_learner(norm)
        for task in asked:
            episode = task.episode
            predictor = learner.adapt(episode.context_x, episode.context_y)
            logits = predictor.in_sets(episode.target_x, len(episode.target_x))
            right.setdefault(norm, []).extend((logits.argmax(1) == episode.target_y).tolist())
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20, help="tasks for each number of examples")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--data-root", type=Path, default=Path(os.environ.get("TASKNORM_DATA", ".")))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    with opened_page() as page:
        for shot in (1, 5):
            drawn = list(tasks(asked.data_root, asked.tasks, shot))
            found, expected = on_page(page, drawn), on_images(drawn)
            for norm in NORMS:
                both = [100 * float(np.mean(right[norm])) for right in (found, expected)]
                same = 100 * float(np.mean([a == b for a, b in zip(found[norm], expected[norm], strict=True)]))
                rows.append({"norm": norm, "way": WAY, "shot": shot, "targets": len(found[norm])})
                rows[-1] |= {"page": round(both[0], 1), "images": round(both[1], 1), "same_outcome": round(same, 1)}
                print(rows[-1], file=sys.stderr)
    if asked.json:
        print(json.dumps({"accuracies": rows}, indent=2))


if __name__ == "__main__":
    main()
