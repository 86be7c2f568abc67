"""`tasknorm predict`: the class of each image, by a predictor's file."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

from tasknorm.cli.exit_codes import errors
from tasknorm.cli.flags import Json, Net
from tasknorm.data import Prepared, class_folders, copy_into, named_pictures
from tasknorm.errors import DataError, at
from tasknorm.learners import NONE, Answer, Predictor
from tasknorm.machine import in_order

AT_ONCE = 64  # images that pass together

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm predict birds.safetensors new/*.jpg --csv")
def predict(
    file: Annotated[Path, typer.Argument(help="File of a predictor, as `tasknorm adapt` writes it.")],
    images: Annotated[list[str], typer.Argument(help="Images, folders of images, or - for a list on standard input.")],
    net: Net = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with the probability of every class.")] = False,
    together: Annotated[
        bool, typer.Option("--together", help="Let a transductive predictor see all images at once.")
    ] = False,
    none_below: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Answer 'none of these' below this probability. Default: as calibrated."),
    ] = None,
    never_none: Annotated[bool, typer.Option("--never-none", help="Never answer 'none of these'.")] = False,
    sort: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Copy the images into a folder with a subfolder for each class.")
    ] = None,
) -> None:
    """Print the class of each image and its probability. Exit code 1 if some images cannot be read."""
    bad: list[str] = []

    def report(why: str) -> None:
        bad.append(why)
        print(f"tasknorm: {why}", file=sys.stderr)

    with errors():
        paths = named_pictures(line for word in images for line in (_listed() if word == "-" else [word]))
        if not paths:
            raise DataError("there are no images to classify, got an empty list; name some, or a folder of them")
        predictor = Predictor.load(file, net)
        answers = answered(predictor, paths, report, together, 0.0 if never_none else none_below)
        if sort is not None:
            answers = _sorted(answers, sort, predictor.names)
        if predictor.label == "transductive":
            alone = "all images were seen at once" if together else "each image was seen alone (see --together)"
            print(f"The predictor is transductive, and {alone}.", file=sys.stderr)
        if as_json:
            _print_json(predictor, answers, bad, together)
        elif as_csv:
            _print_csv(predictor.names, answers)
        elif sys.stdout.isatty():
            _print_table(predictor, answers)
        else:
            for path, answer in answers:
                print(at(path), at(answer.name), f"{answer.probability:.4f}", sep="\t")
    if bad:
        raise typer.Exit(1)


def answered(
    predictor: Predictor, paths: list[Path], report: Callable[[str], None], together: bool, none_below: float | None
) -> Iterator[tuple[Path, Answer]]:
    """The answer to each image that can be read; `report` gets what is wrong with the others."""
    preparation = predictor.known_preparation

    def prepared(path: Path) -> torch.Tensor | str:
        try:
            return preparation.pixels([path])
        except DataError as error:
            return str(error)

    step = len(paths) if together else AT_ONCE
    workers = os.cpu_count() or 1
    read = zip(paths, in_order(prepared, paths, workers, 4 * workers), strict=True)
    for _ in range(0, len(paths), step):
        good: list[Path] = []
        pixels: list[torch.Tensor] = []
        for path, found in (each for _, each in zip(range(step), read, strict=False)):
            if isinstance(found, str):
                report(found)
            else:
                good.append(path)
                pixels.append(found)
        if good:
            images = Prepared(torch.cat(pixels))
            yield from zip(good, predictor.classify(images, together=together, none_below=none_below), strict=True)


def _listed() -> list[str]:
    """The paths on standard input, one a line."""
    lines = os.fsdecode(sys.stdin.buffer.read()).split("\n")
    return [line.removesuffix("\r") for line in lines if line.removesuffix("\r")]


def _sorted(
    answers: Iterator[tuple[Path, Answer]], folder: Path, names: tuple[str, ...]
) -> Iterator[tuple[Path, Answer]]:
    places = class_folders(folder, (*names, NONE))
    for path, answer in answers:
        copy_into(places[answer.name], path)
        yield path, answer


def _print_json(predictor: Predictor, answers: Iterator[tuple[Path, Answer]], bad: list[str], together: bool) -> None:
    rows = [{"image": str(path), **asdict(answer)} for path, answer in answers]
    about = {"label": predictor.label, "together": together, "temperature": predictor.calibration.temperature}
    print(json.dumps(about | {"answers": rows, "unreadable": bad}, indent=2))


def _print_csv(names: tuple[str, ...], answers: Iterator[tuple[Path, Answer]]) -> None:
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["image", "class", "probability", *map(_encodable, names)])
    for path, answer in answers:
        numbers = [f"{number:.6f}" for number in (answer.probability, *answer.probabilities.values())]
        lines.writerow([_encodable(str(path)), _encodable(answer.name), *numbers])


def _print_table(predictor: Predictor, answers: Iterator[tuple[Path, Answer]]) -> None:
    table = Table("image", "class", "probability", box=None, pad_edge=False)
    for path, answer in answers:
        table.add_row(at(path), at(answer.name), f"{answer.probability:.1%}")
    console = Console()
    console.print(table, markup=False)
    console.print(f"{len(predictor.names)} classes, {predictor.label}", markup=False, highlight=False)


def _encodable(text: str) -> str:
    """A name of a file that is no text, as something that can be printed."""
    return text.encode(errors="backslashreplace").decode()
