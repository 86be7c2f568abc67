"""The house itself: few things at the top, rooms with one door, and a command that answers at once."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tasknorm

PACKAGE = Path(tasknorm.__file__).parent
ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def test_the_top_holds_at_most_a_dozen_modules() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 12


def imports(path: Path) -> list[tuple[str, list[str]]]:
    """Modules of this package that a file imports from, and the names."""
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return [(n.module, [a.name for a in n.names]) for n in found if n.module and n.module.startswith("tasknorm")]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_is_entered_by_its_door(path: Path) -> None:
    """From outside a room, names come from its `__init__`; within it, from the file that defines them."""
    own = path.relative_to(PACKAGE).parts[0]
    for module, names in imports(path):
        parts = module.split(".")
        if len(parts) > 1 and parts[1] in ROOMS - {own}:
            assert len(parts) == 2, f"{path.name} imports {names} from {module}, not from tasknorm.{parts[1]}"


@pytest.mark.parametrize("room", sorted(ROOMS - {"cli", "experiments"}))
def test_a_door_says_what_is_behind_it(room: str) -> None:
    module = getattr(tasknorm, room)
    assert module.__doc__
    assert module.__all__ == sorted(module.__all__, key=lambda name: (not name.isupper(), name.islower(), name))
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_public_names_are_there_and_others_are_not() -> None:
    assert [getattr(tasknorm, name) for name in tasknorm.__all__]
    assert set(tasknorm.__all__) <= set(dir(tasknorm))
    with pytest.raises(AttributeError, match="no attribute 'taskNorm'"):
        tasknorm.taskNorm  # noqa: B018
    assert callable(tasknorm.audit)
    assert callable(tasknorm.convert)


@pytest.mark.parametrize("words", [["--help"], ["--version"], []])
def test_the_command_answers_without_torch(words: list[str]) -> None:
    """Torch alone takes longer than people like to wait for a help text."""
    code = (
        f"import sys; sys.argv = ['tasknorm', *{words}]\n"
        "from tasknorm.cli import app\n"
        "try: app()\n"
        "finally: print('torch' in sys.modules)"
    )
    began = time.monotonic()
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stdout.splitlines()[-1] == "False"
    assert time.monotonic() - began < 20  # a hang would show; how fast it is, is a benchmark's matter


def test_a_verb_or_norm_that_is_nearly_right_is_suggested(tmp_path: Path) -> None:
    def told(*words: str) -> str:
        command = [sys.executable, "-m", "tasknorm", *words]
        environment = os.environ | {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stderr

    assert "Did you mean 'train'" in told("trian")
    assert "did you mean 'TaskNorm-I'?" in told("train", "--norm", "TaskNormI", "--out", str(tmp_path))
