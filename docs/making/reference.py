"""A page for each room of the package, from its docstrings; read without importing it."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "tasknorm"
TOP = "tasknorm"


def doors() -> dict[str, Path]:
    """The rooms by dotted name, the package itself first; commands have a page of their own."""
    rooms = {f"{TOP}.{path.parent.name}": path for path in sorted(PACKAGE.glob("*/__init__.py"))}
    return {TOP: PACKAGE / "__init__.py"} | {name: path for name, path in rooms.items() if name != f"{TOP}.cli"}


def public_names(door: Path) -> list[str]:
    """What a door's `__all__` holds."""
    for node in ast.parse(door.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise ValueError(f"{door} has no __all__; a door says what is behind it")


def reference_pages() -> dict[str, str]:
    """Pages by path: one for each room, of all names behind its door."""
    top = public_names(doors()[TOP])
    pages = {}
    for room, door in doors().items():
        names = public_names(door)
        summary = (ast.get_docstring(ast.parse(door.read_text())) or "").strip()
        own = names if room == TOP else [name for name in names if name not in top]
        also = [f"[`{name}`][{TOP}.{name}]" for name in names if name not in own]
        page = [f"# {room}", "", summary, ""]
        if also:
            page += [f"Also here, and described with [the package](tasknorm.md): {', '.join(also)}.", ""]
        page += [f"::: {room}.{name}\n" for name in own]
        pages[f"reference/{room.rpartition('.')[2]}.md"] = "\n".join(page)
    pages["reference/errors.md"] = (
        "# Errors\n\nAll are raised with one sentence that says what is wrong, what was received and what to do. The "
        "command prints it without a traceback; its exit code is 2 for what the caller can put right, 1 for failures, "
        f"and 128 + n after signal n. [`PhaseError`][{TOP}.PhaseError] belongs to phases.\n\n"
        + "\n".join(f"::: {TOP}.errors.{name}\n" for name in errors())
    )
    return pages


def errors() -> list[str]:
    """The package's exceptions."""
    tree = ast.parse((PACKAGE / "errors.py").read_text())
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("Error")]
