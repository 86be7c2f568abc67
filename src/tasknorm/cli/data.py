"""The verbs of `tasknorm data`: list, download, import, check, show, sample."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tasknorm.cli.exit_codes import errors
from tasknorm.cli.flags import Json
from tasknorm.errors import DataError, one_line

app = typer.Typer(no_args_is_help=True, help="Data sets: list, download, import, check, show, sample.")

Name = Annotated[str, typer.Argument(help="A data set's name, or the path of a folder or archive.")]


@app.command("list", epilog="Example: tasknorm data list")
def list_(as_json: Json = False) -> None:
    """List the data sets that are here, and how to get those that are not."""
    from tasknorm.data import data_folder, listed

    with errors():
        rows = listed(data_folder())
    if as_json:
        print(json.dumps({"folder": str(data_folder()), "sources": [asdict(row) for row in rows]}, indent=2))
        return
    print(f"data folder: {data_folder()} (set TASKNORM_DATA for another)")
    for row in rows:
        print(f"{one_line(row.name):20} {row.state:8} {row.detail}")


@app.command(epilog="Example: tasknorm data download omniglot")
def download(
    name: Annotated[str, typer.Argument(help="omniglot, mnist, cifar10, cifar100 or quickdraw.")],
    classes: Annotated[
        list[str] | None, typer.Option("--class", help="Class of quickdraw; give it again for more classes.")
    ] = None,
) -> None:
    """Download a data set from its official address, from where an earlier download stopped."""
    from tasknorm.data import data_folder, fetch

    with errors():
        place = fetch(name, data_folder(), classes or [])
    print(place)


@app.command("import", epilog="Example: tasknorm data import my_photos --as photos --splits splits.json")
def import_(
    path: Annotated[Path, typer.Argument(help="A folder or archive.")],
    name: Annotated[str, typer.Option("--as", help="The name to use it by.")],
    splits: Annotated[
        Path | None, typer.Option(help='JSON: {"train": \\[class, ...], "valid": ..., "test": ...}.')
    ] = None,
    records: Annotated[bool, typer.Option(help="Write it as Meta-Dataset's records.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="With --records: leave out images that cannot be read, and list them.")
    ] = False,
) -> None:
    """Check a data set's layout and copy it into the data folder; `data check` decodes its images."""
    from tasknorm.data import data_folder, import_source

    with errors():
        spec = import_source(path, name, data_folder(), splits, records, skip_bad).spec
    for split, part in spec.splits.items():
        print(f"{split}: {len(part.classes)} classes, {sum(part.images)} images")


@app.command(epilog="Example: tasknorm data check omniglot")
def check(name: Name) -> None:
    """Decode every image and verify its caches; name each bad file. Exit code 1 if there are any."""
    from tasknorm.data import bad_images, damaged_caches, images_by_class, opened

    bad = 0
    with errors():
        source = opened(name)
        for image in bad_images(source):
            print(image.why, file=sys.stderr)
            bad += 1
        damaged = list(damaged_caches(source))
    for why in damaged:
        print(why, file=sys.stderr)
    caches = f", {len(damaged)} damaged caches" if damaged else ""
    print(f"{name}: {sum(images_by_class(source.spec))} images read, {bad} bad{caches}")
    if bad or damaged:
        raise typer.Exit(1)


@app.command(epilog="Example: tasknorm data show glyphs --split test --out glyphs.png")
def show(
    name: Name,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "train",
    classes: Annotated[int, typer.Option(min=1, help="Number of classes, a row each.")] = 20,
    images: Annotated[int, typer.Option(min=1, help="Number of images of each class, a column each.")] = 10,
    out: Annotated[Path | None, typer.Option(help="PNG file to write. Default: NAME.png.")] = None,
) -> None:
    """Write a PNG with some images of some classes."""
    from tasknorm.data import opened, sheet

    with errors():
        source = opened(name)
        out = out or Path(f"{Path(name).stem}.png")
        if out.suffix != ".png":
            raise DataError(f"{out}: the picture's name must end in .png, got {out.suffix or 'no suffix'}; rename it")
        sheet(source, split, classes, images).save(out)
    print(out)


@app.command(epilog="Example: tasknorm data sample glyphs --split train --episodes 6000 --seed 0 --json")
def sample(
    name: Annotated[str, typer.Argument(metavar="SPEC_OR_NAME", help="A dataset_spec.json, or a data set.")],
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "train",
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes to draw.")] = 6000,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the episodes.")] = 0,
    way: Annotated[
        int | None, typer.Option(min=1, help="Classes of each episode. Default: episodes vary, as in Meta-Dataset.")
    ] = None,
    shot: Annotated[int, typer.Option(help="Context images per class of fixed episodes.")] = 1,
    targets: Annotated[int, typer.Option(help="Target images per class of fixed episodes.")] = 15,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out classes too small for an episode.")] = False,
    as_json: Json = False,
) -> None:
    """Describe the episodes of a data set: ways, shots and sizes. No image is read."""
    from tasknorm.data import (
        FixedSampler,
        Sampler,
        VariableSampler,
        chosen_split,
        opened,
        read_spec,
        statistics,
        task_classes,
    )

    with errors():
        spec = read_spec(name) if name.endswith(".json") else opened(name).spec
        part = chosen_split(spec, split)
        if way is None or way <= len(part.classes):
            part = task_classes(spec, split, *((shot, targets) if way else (1, 1)), skip_small=skip_bad)
        caps = (40, 400) if split == "train" else (50, 500)
        sampler: Sampler = FixedSampler(part, way, shot, targets) if way else VariableSampler(part, *caps)
        found = statistics(sampler, episodes, seed)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for key, value in found.items():
        quantiles = ", ".join(f"{level}: {number:g}" for level, number in value["quantiles"].items())
        print(f"{key:8} mean {value['mean']:8.2f}  std {value['std']:8.2f}  quantiles {quantiles}")
