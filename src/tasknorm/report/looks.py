"""The colour, dash and marker of each norm, the same in every picture, and of each form of alpha.

Norms of one kind have related colours. Each has one colour for light pages and one for dark ones, which stand out from
the page by a contrast of at least 3 to 1. Readers with any colour vision can tell apart the norms that are compared
by default; names beside the lines, dashes and markers serve all readers, and print in grey.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tasknorm.settings import AS_IT_WAS

INK = "#1b1f24"  # becomes the page's own text colour, light or dark


class Look(NamedTuple):
    """How a series is drawn: colours on light and on dark pages, matplotlib's dash and marker."""

    light: str
    dark: str
    dash: Any
    marker: str


LOOKS = {
    "TBN": Look("#23272c", "#eef1f5", "-", "o"),
    "CBN": Look("#e06f0c", "#b58440", "--", "s"),
    "BRN": Look("#46441e", "#ebcc01", "-.", "D"),
    "Baseline": Look("#92725d", "#c39071", ":", "X"),
    "LN": Look("#2869c0", "#6abdfc", "--", "v"),
    "IN": Look("#0d04ba", "#5f77fb", "-.", "^"),
    "GN": Look("#aa7add", "#ccd3e7", ":", "<"),
    "RN": Look("#119f94", "#87fb84", "--", "P"),
    "MetaBN": Look("#625800", "#a9b307", "-.", "h"),
    "TaskNorm-r": Look("#8663f3", "#9d88e0", ":", "d"),
    "TaskNorm-L": Look("#72006f", "#fa8aab", "--", ">"),
    "TaskNorm-I": Look("#ad2a6d", "#f21cab", "-", "*"),
    AS_IT_WAS: Look("#5b6670", "#9aa6b2", "-", "p"),
}
ALPHAS = {
    "independent-channel": LOOKS["BRN"],
    "independent-shared": LOOKS["CBN"]._replace(dash="--"),
    "functional-channel": LOOKS["LN"]._replace(dash="-."),
    "functional-shared": LOOKS["TaskNorm-I"],
}


def series_class(series: str) -> str:
    """The class of the style sheet that holds the colour of a norm."""
    return f"series-{series.replace(' ', '-')}"


def colours() -> str:
    """Rules of a style sheet: the colour of each norm, as the variable `--c` of its class."""
    rules = (
        f".{series_class(name)} {{ --c: light-dark({look.light}, {look.dark}); }}\n" for name, look in LOOKS.items()
    )
    return "".join(rules)


def recoloured(text: str) -> str:
    """A drawing in which the colours of norms, and the ink, follow the page from light to dark."""
    for look in LOOKS.values():
        text = text.replace(look.light, f"light-dark({look.light}, {look.dark})")
    return text.replace(INK, "currentColor")
