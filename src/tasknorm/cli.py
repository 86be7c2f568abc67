"""The `tasknorm` command: one function per verb, each a few lines around the library."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tasknorm.cli_data import Json, data
from tasknorm.cli_errors import errors
from tasknorm.memory import keep_freed_memory
from tasknorm.pretrain import Pretraining
from tasknorm.settings import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(data, name="data")


@app.callback()
def tasknorm() -> None:
    """Normalization for few-shot and meta-learning."""


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
    choices = [str(value) for kind in (field.annotation, *get_args(field.annotation)) for value in _literals(kind)]
    option = typer.Option(
        help=(field.description or "").replace("[", "\\["),  # or rich takes it for markup
        metavar=None if is_switch else "|".join(choices) or "VALUE",
        rich_help_panel="Settings",
    )
    kind: Any = Annotated[bool | None, option] if is_switch else Annotated[str | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _literals(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


@app.command(epilog="Example: tasknorm train --learner maml --norm TaskNorm-I --way 5 --shot 1 --out runs/first")
@_with_settings(Settings)
def train(
    out: Annotated[Path, typer.Option(help="The folder of the run.")],
    config: Annotated[Path | None, typer.Option(help="A TOML or JSON file of settings; flags win over it.")] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the run in the folder, if any; with more iterations, also a finished one."
        ),
    ] = False,
    **settings: Any,
) -> None:
    """Meta-train a learner and test it; settings left out are those of the papers."""
    from tasknorm.experiment import run, settled
    from tasknorm.results import Accuracy

    keep_freed_memory()
    given = {name: value for name, value in settings.items() if value is not None}
    with errors():
        result = run(settled(given, config, out, resume), out)
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

    keep_freed_memory()
    with errors():
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
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Leave out images that cannot be read and classes too small for a task."),
    ] = False,
    processes: Annotated[int | None, typer.Option(min=1, help="Trainings at a time; the cores if left out.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for trainings and report.html.")] = Path("comparison"),
) -> None:
    """Which norm should I use here, and is the result transductive? Trains one learner with several norms."""
    from rich.console import Console

    from tasknorm.compare import COMPARED
    from tasknorm.compare import compare as compared

    keep_freed_memory()
    question = {"learner": learner, "source": source, "way": way, "shot": shot, "test_tasks": tasks, "seed": seed}
    question |= {"skip_bad": skip_bad}
    chosen = [norm.strip() for norm in norms.split(",")] if norms else COMPARED
    with errors():
        found = compared(question, chosen, out, minutes=budget, iterations=iterations, processes=processes)
        found.write(out / "report.html")
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
    from tasknorm.pretrain import pretrain as pretrained
    from tasknorm.pretrain import settled_pretraining

    keep_freed_memory()
    given = {name: value for name, value in settings.items() if value is not None}
    with errors():
        pretrained(settled_pretraining(given, out, resume), out)


@app.command(epilog="Example: tasknorm reproduce maml_results --scale cpu --out runs/cpu")
def reproduce(
    experiments: Annotated[list[str] | None, typer.Argument(help="The paper's labels; all if left out.")] = None,
    scale: Annotated[str, typer.Option(help="paper, cpu (two cores, a day) or smoke (minutes).")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="The folder of the runs; runs/SCALE if left out.")] = None,
    engine: Annotated[str, typer.Option(help="local processes, or ray: the cluster at RAY_ADDRESS.")] = "local",
    processes: Annotated[int | None, typer.Option(min=1, help="Runs at a time; one for each GPU or core.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Of each run.")] = 1,
    part: Annotated[float, typer.Option(help="Of each run's iterations; later, a larger part goes on from it.")] = 1.0,
    list_: Annotated[bool, typer.Option("--list", help="Name every table and figure; do nothing.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Name the runs; do nothing.")] = False,
) -> None:
    """Re-run the paper's tables and figures. Goes on where it was stopped; exit code 1 if runs failed."""
    from tasknorm import reproduce as reproducing
    from tasknorm.experiment_files import experiment, names

    folder = out or Path("runs") / scale
    with errors():
        chosen = [experiment(name) for name in experiments or names()]
        if list_ or dry_run:
            listed = reproducing.listed(chosen, scale, folder)
            print("\n".join(listed if list_ else reproducing.planned(chosen, scale, folder, part)))
            return
        failed = reproducing.reproduce(chosen, scale, folder, engine, processes, threads, part=part)
    if failed:
        raise typer.Exit(1)


@app.command(epilog="Example: tasknorm report results --out results/report")
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders with runs in or below them.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
) -> None:
    """Tables and figures of finished runs beside the paper's numbers, and its claims checked on them."""
    from tasknorm.report.write import write_report
    from tasknorm.results import records

    with errors():
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


def _speaks() -> bool:
    """Whether this is the first of the processes that `torchrun` started, or the only one."""
    return os.environ.get("RANK", "0") == "0"
