"""The numbered examples as notebooks: made from the scripts, run by Jupyter, and shown as pages of the site.

`PYTHONPATH=docs python -m making.notebooks` writes them beside the scripts, `make notebooks` does the same. A script is
divided by lines `# %%`, as many editors know them; a part that begins with `# %% [markdown]` is text in comments.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from making.links import ROOT

EXAMPLES = ROOT / "examples"
LARGEST = 300_000  # bytes of a notebook
SECONDS = 300  # that a cell may take
_MARK = re.compile(r"^# %%(?P<text> \[markdown\])?\n", re.MULTILINE)
_DIGITS = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_COLUMNS = re.compile(r"  +")
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "name": "python"},
}


def scripts() -> list[Path]:
    """The numbered examples, in order."""
    return sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))


def title(script: Path) -> str:
    """A script's title, from its name.

    >>> title(Path("01_swap_a_norm.py"))
    'Swap a norm'
    """
    return script.stem.partition("_")[2].replace("_", " ").capitalize()


def notebook(script: Path) -> dict[str, Any]:
    """A script as a notebook of format 4.5 that was not run.

    Raises:
        ValueError: if it does not begin with a docstring and a line `# %%`; says what to do.
    """
    code = script.read_text()
    words = ast.get_docstring(ast.parse(code))
    first, *parts = _MARK.split(code)
    if words is None or not parts or first.strip() != f'"""{words}"""':
        raise ValueError(f"{script.name}: the script must begin with a docstring and then a line '# %%'; add them")
    cells = [_cell(0, "markdown", f"# {title(script)}\n\n{words}")]
    for marked, part in zip(parts[::2], parts[1::2], strict=True):
        text = "\n".join(_uncommented(part.strip().splitlines(), script)) if marked else part.strip()
        cells.append(_cell(len(cells), "markdown" if marked else "code", text))
    return {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}


def _uncommented(lines: Iterable[str], script: Path) -> Iterable[str]:
    for line in lines:
        if line != "#" and not line.startswith("# "):
            raise ValueError(f"{script.name}: text needs '# ' before each line, got {line!r}; or begin code by '# %%'")
        yield line[2:]


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    lines = text.splitlines(keepends=True)
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
    return cell | {"execution_count": None, "outputs": []} if kind == "code" else cell


def executed(made: dict[str, Any]) -> dict[str, Any]:
    """A notebook as Jupyter leaves it after all cells were run in a new folder, with what a script would put out.

    Standard error is left out, and so is the value of a cell's last line. Needs the extra `tasknorm[notebooks]`.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell fails.
    """
    import nbformat
    from nbclient import NotebookClient

    read = nbformat.reads(text_of(made), as_version=4)
    environment = os.environ | {"MPLBACKEND": "module://matplotlib_inline.backend_inline", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(read, timeout=SECONDS, resources={"metadata": {"path": folder}})
        client.execute(env=environment | {"PYTHONDONTWRITEBYTECODE": "1"})
    nbformat.validate(read)
    done: dict[str, Any] = json.loads(nbformat.writes(read))
    for cell in done["cells"]:
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell["outputs"] = _joined(cell["outputs"])
    return done | {"metadata": _METADATA}


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a script puts out too: figures, and what was printed, in one piece if it came in several."""
    kept: list[dict[str, Any]] = []
    for output in outputs:
        if output["output_type"] == "execute_result" or output.get("name") == "stderr":
            continue
        if output["output_type"] == "stream" and kept and kept[-1]["output_type"] == "stream":
            lines = "".join([*kept[-1]["text"], *output["text"]])
            kept[-1]["text"] = lines.splitlines(keepends=True)
        else:
            kept.append(output)
    return kept


def sources(made: dict[str, Any]) -> list[tuple[str, str]]:
    """Kind and text of each cell, which its script determines."""
    return [(cell["cell_type"], "".join(cell["source"])) for cell in made["cells"]]


def shape(made: dict[str, Any]) -> list[list[str]]:
    """What each cell puts out, with `#` for each number: processors differ in last digits, and wide columns follow."""
    found = []
    for cell in made["cells"]:
        texts = ["".join(each.get("text", [*each.get("data", {})])) for each in cell.get("outputs", [])]
        found.append([_COLUMNS.sub(" ", _DIGITS.sub("#", text)) for text in texts])
    return found


def text_of(made: dict[str, Any]) -> str:
    """A notebook as the content of its file."""
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def kept(script: Path) -> dict[str, Any]:
    """The committed notebook of a script."""
    made: dict[str, Any] = json.loads(script.with_suffix(".ipynb").read_text())
    return made


def page(script: Path) -> str:
    """The committed notebook of a script as a page, with figures inside; its links are relative to the script."""
    parts = []
    for cell in kept(script)["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            if "text" in output:
                parts.append('```text title="Output"\n' + "".join(output["text"]).rstrip() + "\n```")
            elif "image/png" in output["data"]:
                data = "".join(output["data"]["image/png"]).replace("\n", "")
                parts.append(f'<img alt="The figure that the code above draws" src="data:image/png;base64,{data}">')
    parts.insert(
        1, f"This page is also a [notebook]({script.stem}.ipynb), made from the script `examples/{script.name}`."
    )
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run and write all notebooks, or those of the scripts that are named."""
    for script in [Path(name) for name in sys.argv[1:]] or scripts():
        text = text_of(executed(notebook(script)))
        if len(text.encode()) > LARGEST:
            raise ValueError(
                f"{script.name}: its notebook has {len(text)} bytes, at most {LARGEST}; draw smaller figures"
            )
        script.with_suffix(".ipynb").write_text(text)
        print(f"{script.with_suffix('.ipynb').name}: {len(text) // 1000} kB")


if __name__ == "__main__":
    main()
