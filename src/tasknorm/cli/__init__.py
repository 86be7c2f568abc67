"""The `tasknorm` command: one file for each verb, imported when it is asked for, so that help is there at once."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from tasknorm.cli.exit_codes import errors

VERBS = {
    "compare": "Find out which norm to use on some data, and which norms peek.",
    "train": "Meta-train a learner, and test it.",
    "tune": "Tune a pretrained network for few-shot tasks, in minutes.",
    "evaluate": "Test the weights of a run, and say whether the result is transductive.",
    "adapt": "Adapt a run to classes of your own, and write a predictor of them.",
    "predict": "Classify images with a predictor.",
    "export": "Write a predictor or a learner as a program: ONNX, or PyTorch's own.",
    "audit": "Find out whether a model's scores depend on who else is in the batch.",
    "serve": "Serve few-shot classifiers over HTTP.",
    "pretrain": "Train a feature extractor, for CNAPs and NCM.",
    "import-cnaps": "Make a run from the weights that CNAPs' authors released.",
    "reproduce": "Re-run the paper's tables and figures.",
    "report": "Put finished runs beside the paper's numbers.",
    "play": "Open a page that learns what you draw.",
    "data": "List, download, import, check, show and sample data sets.",
}


class Verbs(TyperGroup):
    """The verbs by name: one line of each for the help, the whole command for the one that is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {verb: TyperCommand(verb, help=line) for verb, line in VERBS.items()}  # stand-ins

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb that is called, whole."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        if stand_in is None or name not in VERBS:
            return name, stand_in, rest
        with errors():  # an extra that is not installed
            command = get_command(import_module(f"tasknorm.cli.{name.replace('-', '_')}").app)
        command.name = name
        return name, command, rest


app = typer.Typer(cls=Verbs, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tasknorm {version('tasknorm')}")
        raise typer.Exit


@app.callback()
def tasknorm(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Normalization for few-shot and meta-learning."""
