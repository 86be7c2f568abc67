"""Every code block of the documentation runs as it stands on its page, in order, in a clean folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from making.blocks import blocks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if any(not block.reason for block in blocks(path)))

# The blocks that cannot run here, by page: how many, and what they would need.
NOT_RUN = {
    "audit.md": ["needs your photos"],
    "data.md": ["needs a data set of your own"],
    "five-minutes.md": ["downloads packages", "takes ten minutes", "needs your photos and half an hour"],
    "guide.md": ["needs your photos and half an hour", "needs the authors' file"],
    "howto/machines.md": ["needs a GPU", "needs a Ray cluster"],
    "howto/photos.md": ["runs with other photos in tests/cli"] * 2,
    "howto/pretrained.md": ["downloads weights and needs your photos", "takes minutes"],
    "howto/serve.md": ["needs your photos"],
    "howto/train.md": ["takes an hour", "needs Meta-Dataset's sources", "takes hours"],
    "pretrained.md": ["needs your photos and minutes"] * 2,
    "play.md": ["opens a browser", "takes nine minutes"],
    "serve.md": ["needs a run of yours", *["How to serve runs the like"] * 3],
}


def ran(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """All blocks of a page, run in a folder."""
    paths = [str(DOCS), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(paths),
        "TASKNORM_DATA": str(folder / "data"),
    }
    command = [sys.executable, "-W", "error", str(Path(__file__).parent / "run_page.py"), str(page)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **pipes) as process:
        try:
            printed, said = process.communicate(timeout=300)
        finally:  # whatever a page that failed left running
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, printed, said)


@pytest.mark.usefixtures("glyph_cache")
@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    done = ran(page, tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_blocks_that_do_not_run_are_few_and_say_why() -> None:
    pages = sorted(DOCS.rglob("*.md"))
    found = {str(path.relative_to(DOCS)): [b.reason for b in blocks(path) if b.reason] for path in pages}
    assert {page: reasons for page, reasons in found.items() if reasons} == NOT_RUN
    assert 3 * sum(map(len, NOT_RUN.values())) < sum(len(blocks(path)) for path in pages)


def test_a_block_that_fails_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx = 1\n```\n\n- deeper\n\n    ```python\n    assert x == 2\n    ```\n")
    done = ran(page, tmp_path)
    assert done.returncode == 1
    assert f'{page}", line 10' in done.stderr


def test_a_session_is_compared_with_its_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one two three\none ... three\n$ echo more\nmore\n```\n")
    assert ran(page, tmp_path).returncode == 0
    page.write_text("```console\n$ echo one\ntwo\n```\n")
    assert "printed" in ran(page, tmp_path).stderr
