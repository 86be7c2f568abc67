"""Runs the blocks of a page in order: `python run_page.py PAGE`, in the folder where they should run.

Python blocks share one namespace, as if they had been typed into one session; shell blocks are given to bash.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from making.blocks import Block, blocks


def main() -> None:
    page = Path(sys.argv[1])
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.reason:
            continue
        place = f"{page.name}, line {block.line}"
        print(f"--- {place}", flush=True)
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), namespace)
        elif block.language == "sh":
            subprocess.run(["bash", "-euo", "pipefail", "-c", block.code], check=True)
        else:
            _session(block, place)


def _session(block: Block, place: str) -> None:
    """Run what stands after each `$`, and compare what it prints with what stands below; `...` is anything."""
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.code, re.MULTILINE):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], check=True, capture_output=True, text=True)
        pattern = re.escape(expected.strip()).replace(r"\.\.\.", ".*")
        assert re.fullmatch(pattern, done.stdout.strip(), re.DOTALL), f"{place}: {command} printed\n{done.stdout}"


if __name__ == "__main__":
    main()
