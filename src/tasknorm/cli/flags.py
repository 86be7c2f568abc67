"""A flag for every setting, made from the settings themselves (`settings/training.py`, `settings/pretraining.py`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

Verb = Callable[..., None]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Net = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name of the predictor's network, if a function of yours makes it: package.module:function. It is called, "
        "which a file alone cannot do.",
    ),
]


def with_settings(fields: Mapping[str, FieldInfo], defaults: Mapping[str, Any]) -> Callable[[Verb], Verb]:
    """Give a verb a flag for every setting, in place of its `**settings`; flags that are left out are None.

    Args:
        fields: the settings by name.
        defaults: for the help, the value that each setting has if no flag is given.
    """

    def with_flags(verb: Verb) -> Verb:
        own = [p for p in inspect.signature(verb, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters = [*own, *(_flag(name, field, defaults.get(name)) for name, field in fields.items())]
        verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        verb.__annotations__ = {p.name: p.annotation for p in parameters}
        return verb

    return with_flags


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings whose flags were given."""
    return {name: value for name, value in settings.items() if value is not None}


def _flag(name: str, field: FieldInfo, default: Any) -> inspect.Parameter:
    is_switch = field.annotation in (bool, bool | None)
    choices = [str(value) for kind in (field.annotation, *get_args(field.annotation)) for value in _literals(kind)]
    option = typer.Option(
        help=f"{field.description}{_in_words(default)}".replace("[", "\\["),  # or rich takes it for markup
        metavar=None if is_switch else "|".join(choices) or "VALUE",
        rich_help_panel="Settings",
    )
    kind: Any = Annotated[bool | None, option] if is_switch else Annotated[str | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _in_words(default: Any) -> str:
    if default is None:
        return ""
    return f" Default: {('no', 'yes')[default] if isinstance(default, bool) else default}."


def _literals(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()
