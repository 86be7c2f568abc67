"""The examples as notebooks: as their scripts make them, run by Jupyter, and small."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from making.links import ROOT
from making.notebooks import LARGEST, kept, notebook, page, scripts, shape, sources, text_of

AGAIN = "make it anew: make notebooks"


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.stem)
def test_a_notebook_is_its_script(script: Path) -> None:
    made = kept(script)
    assert sources(made) == sources(notebook(script)), AGAIN
    assert {**made, "cells": []} == {**notebook(script), "cells": []}, AGAIN
    assert script.with_suffix(".ipynb").read_text() == text_of(made), AGAIN
    assert script.with_suffix(".ipynb").stat().st_size < LARGEST


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.stem)
def test_a_notebook_shows_a_run_with_its_figures(script: Path) -> None:
    cells = [cell for cell in kept(script)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)], AGAIN
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data"}
    figures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(figures) == script.read_text().count("plt.show()") > 0
    printed = "".join(line for output in outputs for line in output.get("text", []))
    assert printed
    assert str(ROOT) not in printed
    assert "/tmp" not in printed


@pytest.mark.usefixtures("glyph_cache")
@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.stem)
def test_a_notebook_runs_and_puts_out_what_is_kept(script: Path, tmp_path: Path) -> None:
    """By Jupyter's own kernel, in a process apart, since its packages warn; numbers may differ between processors."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for needed in ("onnxruntime", "onnxscript") if "onnxruntime" in script.read_text() else ():
        pytest.importorskip(needed)
    code = (
        "import json, sys; from pathlib import Path; from making.notebooks import executed, notebook\n"
        "Path(sys.argv[2]).write_text(json.dumps(executed(notebook(Path(sys.argv[1])))))"
    )
    paths = [str(ROOT / "docs"), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    out = tmp_path / "run.ipynb"
    done = subprocess.run(
        [sys.executable, "-c", code, str(script), str(out)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert shape(kept(out.with_suffix(".py"))) == shape(kept(script)), AGAIN


def test_a_page_shows_text_code_printed_lines_and_figures() -> None:
    shown = page(scripts()[0])
    assert shown.startswith("# Swap a norm\n")
    for part in (
        "[notebook](01_swap_a_norm.ipynb)",
        "```python\n",
        '```text title="Output"\nswapped:',
        "data:image/png",
    ):
        assert part in shown


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import torch\n", "must begin with a docstring"),
        ('"""Words."""\n\nimport torch\n', "must begin with a docstring and then a line"),
        ('"""Words."""\n\n# %% [markdown]\n# Text.\nprint(1)\n', r"text needs '# ' before each line, got 'print\(1\)'"),
    ],
)
def test_a_script_without_its_marks_is_refused_by_name(code: str, words: str, tmp_path: Path) -> None:
    script = tmp_path / "10_wrong.py"
    script.write_text(code)
    with pytest.raises(ValueError, match=rf"10_wrong\.py: .*{words}"):
        notebook(script)


def test_what_differs_between_processors_does_not_count() -> None:
    def cell(text: str) -> dict[str, object]:
        return {"cells": [{"outputs": [{"output_type": "stream", "text": [text]}]}]}

    assert shape(cell("loss 0.31   -1e-05\n")) == shape(cell("loss 12.5 3\n"))
    assert shape(cell("loss 0.31\n")) != shape(cell("lost 0.31\n"))
