"""A table of text, and its renderings for other documents: Markdown, LaTeX and CSV."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from csv import writer as csv_writer
from dataclasses import dataclass
from typing import Literal, NamedTuple

MISSING = "—"
MARKUP = re.compile(r"[\\`*\[\]~$]|(?<!\w)_|_(?!\w)|<(?! )|(?<! )>|&(?=[#\w])")


class Cell(NamedTuple):
    """What stands in one place of a table; a `mark` is a class of the page's style sheet."""

    text: str
    bold: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """One line of a table.

    Attributes:
        cells: one for each heading; the first names the line, and is empty where it belongs to the line above.
        kind: the paper's lines are printed fainter than ours.
        rule: whether a rule stands above it.
    """

    cells: tuple[Cell, ...]
    kind: Literal["ours", "paper", "rank"] = "ours"
    rule: bool = False


@dataclass(frozen=True)
class Table:
    """A table ready to print.

    Attributes:
        name: names its files and its place on a page.
        words: how many columns at the left hold words, not numbers.
    """

    name: str
    title: str
    headings: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    words: int = 1


def line(cells: Iterable[str | Cell], kind: Literal["ours", "paper", "rank"] = "ours", rule: bool = False) -> Line:
    """A line from texts and cells; an empty text other than the first is a missing value."""
    made = [cell if isinstance(cell, Cell) else Cell(cell) for cell in cells]
    return Line((made[0], *(cell if cell.text else Cell(MISSING) for cell in made[1:])), kind, rule)


def markdown(table: Table) -> str:
    """GitHub's Markdown: title, table, notes."""
    ruler = ["---"] * table.words + ["---:"] * (len(table.headings) - table.words)
    headings = [plain(heading) for heading in table.headings]
    body = "\n".join([_piped(headings), _piped(ruler), *map(markdown_row, table.lines)])
    notes = ["\n".join(f"- {plain(note)}" for note in table.notes)] if table.notes else []
    return "\n\n".join([f"### {plain(table.title)}", body, *notes])


def plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line: what would be markup is escaped.

    A name may come from anywhere. Underscores inside a word are no markup, nor are a lone < and & among blanks.

    >>> print(plain("[x](http://y) <b> *cu_birds* _a_ 3 < 4"))
    \\[x\\](http://y) \\<b\\> \\*cu_birds\\* \\_a\\_ 3 < 4
    """
    text = MARKUP.sub(r"\\\g<0>", " ".join(text.split()))
    return re.sub(r"^(#+|[-+>=~]+|\d+[.)])(?=\s|$)", lambda found: found[0][:-1] + "\\" + found[0][-1], text)


def latex(table: Table) -> str:
    """A floating table; needs the packages booktabs and graphicx."""
    notes = " ".join(map(_tex, table.notes))
    return "\n".join(
        [
            r"% needs \usepackage{booktabs,graphicx}",
            r"\begin{table*}[t]",
            rf"\caption{{{_tex(table.title)}. {notes}}}".replace(" }", "}"),
            rf"\label{{tab:{table.name}}}",
            r"\centering\smallskip",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{{'l' * table.words}{'c' * (len(table.headings) - table.words)}}}",
            r"\toprule",
            " & ".join(map(_tex, table.headings)) + r" \\",
            r"\midrule",
            *map(latex_row, table.lines),
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table*}",
        ]
    )


def csv(table: Table) -> str:
    """Comma-separated values: headings, then lines, each of which begins with its name."""
    return "".join(f"{row}\n" for row in (_csv_row(table.headings), *csv_rows(table)))


def csv_rows(table: Table) -> list[str]:
    """The lines of a table as comma-separated values."""
    name, made = "", []
    for item in table.lines:
        name = item.cells[0].text or name
        made.append(_csv_row([name, *(cell.text for cell in item.cells[1:])]))
    return made


def markdown_row(item: Line) -> str:
    """A line of a table in Markdown."""
    return _piped(map(_starred, item.cells))


def latex_row(item: Line) -> str:
    """A line of a table in LaTeX, with the rule above it."""
    cells = " & ".join(_tex_cell(cell) for cell in item.cells)
    return ("\\midrule\n" if item.rule else "") + cells + r" \\"


def _piped(texts: Iterable[str]) -> str:
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |"


def _csv_row(texts: Iterable[str]) -> str:
    stream = io.StringIO()
    csv_writer(stream, lineterminator="").writerow(" ".join(text.split()) for text in texts)
    return stream.getvalue()


def _starred(cell: Cell) -> str:
    return f"**{plain(cell.text)}**" if cell.bold else plain(cell.text)


def _tex_cell(cell: Cell) -> str:
    return rf"\textbf{{{_tex(cell.text)}}}" if cell.bold else _tex(cell.text)


TEX = {
    "\\": r"\textbackslash{}",
    **{special: f"\\{special}" for special in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "†": r"$\dagger$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "≈": r"$\approx$",
    "≠": r"$\neq$",
    "·": r"$\cdot$",
    "\N{GREEK SMALL LETTER ALPHA}": r"$\alpha$",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "—": "---",
    "\N{EN DASH}": "--",
    "…": r"\ldots{}",
}


def _tex(text: str) -> str:
    """Text with LaTeX's special characters escaped.

    >>> _tex("94.4 ± 0.8 % of a_b")
    '94.4$\\\\pm$0.8 \\\\% of a\\\\_b'
    """
    text = re.sub(r"(?<=\d) ± (?=\d)", "±", text)
    return "".join(TEX.get(character, character) for character in text)
