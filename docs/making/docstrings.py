"""What mkdocstrings should know of our docstrings: their examples are doctests, without a heading of their own."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?P=indent)\S.*|\n(?P=indent) +\S.*)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts doctests into fences, so that they are shown as code."""

    def on_object(self, *, obj: griffe.Object, **rest: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    """A docstring whose doctests are in fences; the rest is as it was.

    >>> fenced("Text.\\n\\n>>> 1 + 1\\n2").splitlines()
    ['Text.', '', '```pycon', '>>> 1 + 1', '2', '```']
    """

    def fence(found: re.Match[str]) -> str:
        return f"{found['indent']}```pycon\n{found[0]}\n{found['indent']}```"

    return _DOCTEST.sub(fence, docstring)
