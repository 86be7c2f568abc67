"""The `tasknorm` command: one function per verb, each a few lines around the library."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tasknorm.pretrain import Pretraining
from tasknorm.settings import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
data = typer.Typer(no_args_is_help=True, help="Data sets: list, download, import, check, show, sample.")
app.add_typer(data, name="data")

Name = Annotated[str, typer.Argument(help="A data set's name, or the path of a folder or archive.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def tasknorm() -> None:
    """Normalization for few-shot and meta-learning."""


@contextmanager
def _errors() -> Iterator[None]:
    """One clear message on standard error and exit code 2, instead of a traceback."""
    from tasknorm.config import SettingsError
    from tasknorm.data import DataError
    from tasknorm.weights import WeightsError

    try:
        yield
    except (DataError, SettingsError, WeightsError, ModuleNotFoundError, OSError) as error:
        print(f"tasknorm: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


@data.command("list", epilog="Example: tasknorm data list")
def list_(as_json: Json = False) -> None:
    """What is here, what is missing and how to get it."""
    from tasknorm.data.listing import listed
    from tasknorm.data.places import data_folder

    with _errors():
        rows = listed(data_folder())
    if as_json:
        print(json.dumps({"folder": str(data_folder()), "sources": [asdict(row) for row in rows]}, indent=2))
        return
    print(f"data folder: {data_folder()} (set TASKNORM_DATA for another)")
    for row in rows:
        print(f"{row.name:20} {row.state:8} {row.detail}")


@data.command(epilog="Example: tasknorm data download omniglot")
def download(
    name: Annotated[str, typer.Argument(help="omniglot, mnist, cifar10, cifar100 or quickdraw.")],
    classes: Annotated[list[str] | None, typer.Option("--class", help="A class of quickdraw; repeat it.")] = None,
) -> None:
    """Fetch a data set from its official address; goes on where it broke off."""
    from tasknorm.data.fetch import fetch
    from tasknorm.data.places import data_folder

    with _errors():
        place = fetch(name, data_folder(), classes or [])
    print(place)


@data.command("import", epilog="Example: tasknorm data import my_photos --as photos --splits splits.json")
def import_(
    path: Annotated[Path, typer.Argument(help="A folder or archive.")],
    name: Annotated[str, typer.Option("--as", help="The name to use it by.")],
    splits: Annotated[
        Path | None, typer.Option(help='JSON: {"train": [class, ...], "valid": ..., "test": ...}.')
    ] = None,
    records: Annotated[bool, typer.Option(help="Write it as Meta-Dataset's records.")] = False,
) -> None:
    """Check a data set and copy it into the data folder."""
    from tasknorm.data.importing import import_source
    from tasknorm.data.places import data_folder

    with _errors():
        spec = import_source(path, name, data_folder(), splits, records).spec
    for split, part in spec.splits.items():
        print(f"{split}: {len(part.classes)} classes, {sum(part.images)} images")


@data.command(epilog="Example: tasknorm data check omniglot")
def check(name: Name) -> None:
    """Decode every image; name each bad file. Exit code 1 if there are any."""
    from tasknorm.data import opened
    from tasknorm.data.check import bad_images
    from tasknorm.data.source import images_by_class

    bad = 0
    with _errors():
        source = opened(name)
        for message in bad_images(source):
            print(message, file=sys.stderr)
            bad += 1
    print(f"{name}: {sum(images_by_class(source.spec))} images read, {bad} bad")
    if bad:
        raise typer.Exit(1)


@data.command(epilog="Example: tasknorm data show glyphs --split test --out glyphs.png")
def show(
    name: Name,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "train",
    classes: Annotated[int, typer.Option(min=1, help="Rows.")] = 20,
    images: Annotated[int, typer.Option(min=1, help="Columns.")] = 10,
    out: Annotated[Path | None, typer.Option(help="The PNG to write; NAME.png if left out.")] = None,
) -> None:
    """Write a PNG with some images of some classes."""
    from tasknorm.data import opened
    from tasknorm.data.sheet import sheet

    with _errors():
        source = opened(name)
        out = out or Path(f"{Path(name).stem}.png")
        sheet(source, split, classes, images).save(out)
    print(out)


@data.command(epilog="Example: tasknorm data sample glyphs --split train --episodes 6000 --seed 0 --json")
def sample(
    name: Annotated[str, typer.Argument(metavar="SPEC_OR_NAME", help="A dataset_spec.json, or a data set.")],
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "train",
    episodes: Annotated[int, typer.Option(min=1)] = 6000,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1)] = 0,
    way: Annotated[
        int | None, typer.Option(help="Fixed episodes of so many classes; variable ones if left out.")
    ] = None,
    shot: Annotated[int, typer.Option(help="Context images per class of fixed episodes.")] = 1,
    targets: Annotated[int, typer.Option(help="Target images per class of fixed episodes.")] = 15,
    as_json: Json = False,
) -> None:
    """What do the episodes of a data set look like? Needs no images."""
    from tasknorm.data import FixedSampler, VariableSampler, opened, read_spec, statistics
    from tasknorm.data.draw import Sampler
    from tasknorm.data.source import chosen_split

    with _errors():
        spec = read_spec(name) if name.endswith(".json") else opened(name).spec
        part = chosen_split(spec, split)
        caps = (40, 400) if split == "train" else (50, 500)
        sampler: Sampler = FixedSampler(part, way, shot, targets) if way else VariableSampler(part, *caps)
        found = statistics(sampler, episodes, seed)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for key, value in found.items():
        quantiles = ", ".join(f"{level}: {number:g}" for level, number in value["quantiles"].items())
        print(f"{key:8} mean {value['mean']:8.2f}  std {value['std']:8.2f}  quantiles {quantiles}")


Verb = Callable[..., None]


def _with_settings(model: type[BaseModel]) -> Callable[[Verb], Verb]:
    """A flag for every setting of a model, in place of a verb's `**settings`; those left out are None."""

    def with_flags(verb: Verb) -> Verb:
        own = [p for p in inspect.signature(verb, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters = [*own, *(_flag(name, field) for name, field in model.model_fields.items())]
        verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        verb.__annotations__ = {p.name: p.annotation for p in parameters}
        return verb

    return with_flags


def _flag(name: str, field: FieldInfo) -> inspect.Parameter:
    is_switch = field.annotation in (bool, bool | None)
    option = typer.Option(help=field.description, metavar=None if is_switch else "VALUE", rich_help_panel="Settings")
    kind: Any = Annotated[bool | None, option] if is_switch else Annotated[str | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


@app.command(epilog="Example: tasknorm train --learner maml --norm TaskNorm-I --way 5 --shot 1 --out runs/first")
@_with_settings(Settings)
def train(
    out: Annotated[Path, typer.Option(help="The folder of the run.")],
    config: Annotated[Path | None, typer.Option(help="A TOML or JSON file of settings; flags win over it.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder, if there is one.")
    ] = False,
    **settings: Any,
) -> None:
    """Meta-train a learner and test it; settings left out are those of the papers."""
    from tasknorm.experiment import run, settled
    from tasknorm.meta_step import DivergedError
    from tasknorm.ranks import LostRankError
    from tasknorm.results import Accuracy
    from tasknorm.train import StoppedError

    given = {name: value for name, value in settings.items() if value is not None}
    try:
        with _errors():
            result = run(settled(given, config, out, resume), out)
    except (StoppedError, DivergedError, LostRankError) as error:
        print(f"tasknorm: {error}", file=sys.stderr)
        raise typer.Exit(128 + error.received if isinstance(error, StoppedError) else 1) from None
    if _speaks():
        for row in result["accuracies"]:
            print(Accuracy.of_row(row))


@app.command(epilog="Example: tasknorm evaluate runs/first --targets all,example,class")
def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    targets: Annotated[str, typer.Option(help="How they come: all, example, class; several by commas.")] = "all",
    norm: Annotated[
        str | None, typer.Option(help="TBN, CBN and RN serve each other; the run's own if left out.")
    ] = None,
    tasks: Annotated[int, typer.Option(min=1)] = 600,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the tasks.")] = 0,
    as_json: Json = False,
) -> None:
    """Test a run's final and best weights; says whether the result is transductive."""
    from tasknorm.meta_test import evaluated

    with _errors():
        found = evaluated(run, targets.split(","), norm, tasks, seed)
    if _speaks():
        print(json.dumps([each.row() for each in found], indent=2) if as_json else "\n".join(map(str, found)))


@app.command(epilog="Example: tasknorm compare --source folder:my_photos --way 5 --shot 5 --budget 30")
def compare(
    learner: Annotated[str, typer.Option(help="maml, protonets or cnaps.")] = "protonets",
    source: Annotated[str, typer.Option(help="A data set, or folder:PATH with a subfolder for each class.")] = "glyphs",
    norms: Annotated[str | None, typer.Option(help="The paper's labels, by commas; eight of them if left out.")] = None,
    way: Annotated[int, typer.Option(help="Classes of a task.")] = 5,
    shot: Annotated[int, typer.Option(help="Context images of each class.")] = 1,
    budget: Annotated[float, typer.Option(min=0.1, help="Minutes that it may take in all.")] = 4.0,
    iterations: Annotated[int | None, typer.Option(min=1, help="Of each training, in place of a budget.")] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Test tasks.")] = 200,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1)] = 0,
    processes: Annotated[int | None, typer.Option(min=1, help="Trainings at a time; the cores if left out.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for trainings and report.html.")] = Path("comparison"),
) -> None:
    """Which norm should I use here, and is the result transductive? Trains one learner with several norms."""
    from rich.console import Console

    from tasknorm.compare import COMPARED, FailedRunsError
    from tasknorm.compare import compare as compared
    from tasknorm.train import StoppedError

    question = {"learner": learner, "source": source, "way": way, "shot": shot, "test_tasks": tasks, "seed": seed}
    try:
        with _errors():
            found = compared(
                question,
                norms.split(",") if norms else COMPARED,
                out,
                minutes=budget,
                iterations=iterations,
                processes=processes,
            )
            found.write(out / "report.html")
    except (FailedRunsError, StoppedError) as error:
        print(f"tasknorm: {error}", file=sys.stderr)
        raise typer.Exit(128 + error.received if isinstance(error, StoppedError) else 1) from None
    console = Console()
    console.print(found.text())
    for sentence in found.verdict():
        console.print(sentence, highlight=False)
    print(f"The whole report, with curves: {out / 'report.html'}")


@app.command(epilog="Example: tasknorm pretrain --net resnet-small --image-size 28 --epochs 20 --out runs/extractor")
@_with_settings(Pretraining)
def pretrain(
    out: Annotated[Path, typer.Option(help="The folder to write; extractor.safetensors is what --pretrained takes.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on after the last whole epoch.")] = False,
    **settings: Any,
) -> None:
    """Train a feature extractor on the classes of the train split; its weights serve every norm."""
    from tasknorm.meta_step import DivergedError
    from tasknorm.pretrain import pretrain as pretrained
    from tasknorm.pretrain import settled_pretraining

    given = {name: value for name, value in settings.items() if value is not None}
    try:
        with _errors():
            pretrained(settled_pretraining(given, out, resume), out)
    except DivergedError as error:
        print(f"tasknorm: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


@app.command(epilog="Example: tasknorm reproduce maml_results --scale cpu --out runs/cpu")
def reproduce(
    experiments: Annotated[list[str] | None, typer.Argument(help="The paper's labels; all if left out.")] = None,
    scale: Annotated[str, typer.Option(help="paper, cpu (two cores, a day) or smoke (minutes).")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="The folder of the runs; runs/SCALE if left out.")] = None,
    engine: Annotated[str, typer.Option(help="local processes, or ray: the cluster at RAY_ADDRESS.")] = "local",
    processes: Annotated[int | None, typer.Option(min=1, help="Runs at a time; one for each GPU or core.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Of each run.")] = 1,
    list_: Annotated[bool, typer.Option("--list", help="Name every table and figure; do nothing.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Name the runs; do nothing.")] = False,
) -> None:
    """Re-run the paper's tables and figures. Goes on where it was stopped; exit code 1 if runs failed."""
    from tasknorm import reproduce as reproducing
    from tasknorm.experiment_files import experiment, names
    from tasknorm.train import StoppedError

    folder = out or Path("runs") / scale
    try:
        with _errors():
            chosen = [experiment(name) for name in experiments or names()]
            if list_ or dry_run:
                lines = (reproducing.listed if list_ else reproducing.planned)(chosen, scale, folder)
                print("\n".join(lines))
                return
            failed = reproducing.reproduce(chosen, scale, folder, engine, processes, threads)
    except StoppedError as error:
        print(f"tasknorm: {error}", file=sys.stderr)
        raise typer.Exit(128 + error.received) from None
    if failed:
        raise typer.Exit(1)


def _speaks() -> bool:
    """Whether this is the first of the processes that `torchrun` started, or the only one."""
    return os.environ.get("RANK", "0") == "0"


@app.command(epilog="Example: tasknorm report results --out results/report")
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders with runs in or below them.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
) -> None:
    """Tables and figures of finished runs beside the paper's numbers, and its claims checked on them."""
    from tasknorm.report.write import write_report
    from tasknorm.results import records

    with _errors():
        found = records(*folders)
        if not found:
            names = ", ".join(map(str, folders))
            raise FileNotFoundError(
                f"{names}: no finished run there (config.json and result.json); give another folder"
            )
        written = write_report(found, out)
    print(f"{len(found)} runs")
    for path in written:
        print(path)
