"""The code blocks of a page, which the tests run as they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

RUN = ("python", "sh", "console")
_BLOCK = re.compile(r'^( *)```(\w+)(?: title="([^"]*)")? *\n(.*?)^\1``` *$', re.MULTILINE | re.DOTALL)
_NOT = "Not run by the tests: "


@dataclass(frozen=True)
class Block:
    """One block of code.

    Args:
        language: one of `RUN`.
        line: where it begins on its page.
        code: its text.
        reason: why the tests do not run it, as the page says in the block's title; empty if they do.
    """

    language: str
    line: int
    code: str
    reason: str


def blocks(page: Path) -> list[Block]:
    """All blocks of a page in a language that can be run, in order."""
    text = page.read_text()
    found = []
    for match in _BLOCK.finditer(text):
        indent, language, title, code = match[1], match[2], match[3] or "", match[4]
        if language in RUN:
            line = text.count("\n", 0, match.start()) + 2
            reason = title.removeprefix(_NOT) if title.startswith(_NOT) else ""
            found.append(Block(language, line, re.sub(f"^{indent}", "", code, flags=re.MULTILINE), reason))
    return found
