"""A page of every command and flag, from their help."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer.main import get_command

from tasknorm.cli import VERBS

BEGINNING = """# Command line

Everything here is printed by the command itself: `tasknorm --help`, `tasknorm VERB --help`. Settings of `train` and
`pretrain` are also keys of a TOML or JSON file (`--config`), with underscores in place of hyphens; flags override it.

"""


def command_line_page() -> str:
    """The page, in Markdown."""
    page = BEGINNING + "| verb | what it does |\n|---|---|\n"
    page += "".join(f"| [`{verb}`](#{_anchor(verb)}) | {line} |\n" for verb, line in VERBS.items())
    for verb in VERBS:
        command: Any = get_command(import_module(f"tasknorm.cli.{verb.replace('-', '_')}").app)
        page += _section(verb, command, 2)
        for name, inner in getattr(command, "commands", {}).items():
            page += _section(f"{verb} {name}", inner, 3)
    return page


def _section(words: str, command: Any, level: int) -> str:
    """Usage, help and flags of one command."""
    text = f"\n{'#' * level} tasknorm {words} {{ #{_anchor(words)} }}\n\n{_plain(command.help or '')}\n"
    if hasattr(command, "commands"):
        return text
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    usage = " ".join(["tasknorm", words, *(_argument(p) for p in arguments), "[OPTIONS]"])
    text += f"\n```text\n{usage}\n```\n"
    if command.epilog:
        label, _, example = command.epilog.partition(": ")
        text += f"\n{label}:\n\n```text\n{example}\n```\n"
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if not parameter.hidden and parameter.name != "help":
            panels.setdefault(parameter.rich_help_panel or "", []).append(parameter)
    for panel, parameters in panels.items():
        text += f"\n{panel}:\n" if panel else ""
        text += "\n| flag | what it is |\n|---|---|\n" + "".join(_row(p) for p in parameters)
    return text


def _row(parameter: Any) -> str:
    if not parameter.opts[0].startswith("-"):
        name = _argument(parameter)
    else:
        name = ", ".join(parameter.opts) + "".join(f" / {opt}" for opt in parameter.secondary_opts)
        if not parameter.is_flag:
            name += f" {parameter.metavar or parameter.name.upper()}"
    text = _plain(parameter.help or "")
    if parameter.required:
        text += " Required."
    elif parameter.default not in (None, False, (), []) and "Default:" not in text:
        text += f" Default: {parameter.default}."
    return f"| `{_cell(name)}` | {_cell(text)} |\n"


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper()
    return f"{name}..." if parameter.nargs == -1 else name


def _anchor(words: str) -> str:
    return f"tasknorm-{words.replace(' ', '-')}"


def _plain(text: str) -> str:
    """A help text without the escapes that keep rich from taking brackets for markup."""
    return text.replace("\\[", "[").strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
