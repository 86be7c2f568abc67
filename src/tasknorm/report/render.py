"""A table of text, and its three renderings: Markdown, LaTeX and HTML."""

from __future__ import annotations

import html as entities
import re
from collections.abc import Iterable, Sequence
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
    rows = [headings, ruler, *([_starred(cell) for cell in line.cells] for line in table.lines)]
    body = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
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
    lines = []
    for item in table.lines:
        lines += [r"\midrule"] if item.rule else []
        lines.append(" & ".join(_tex_cell(cell) for cell in item.cells) + r" \\")
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
            *lines,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table*}",
        ]
    )


def html(table: Table) -> str:
    """A figure that scrolls sideways in its own box, so that the page never does."""
    title, heads = entities.escape(table.title), table.headings
    classes = ["words" if place < table.words else "number" for place in range(len(heads))]
    top = "".join(f'<th scope="col" class="{c}">{_whole(h)}</th>' for h, c in zip(heads, classes, strict=True))
    body = []
    for place, item in enumerate(table.lines):
        first, *others = zip(item.cells, classes, strict=True)
        cells = [] if place and not first[0].text else [_row_header(table.lines[place:])]
        cells += [f'<td class="{f"{c} {cell.mark}".strip()}">{_html_cell(cell, c)}</td>' for cell, c in others]
        body.append(f'<tr class="{item.kind}{" rule" if item.rule else ""}">{"".join(cells)}</tr>')
    notes = "".join(f"<li>{entities.escape(note)}</li>" for note in table.notes)
    return (
        f'<figure class="table" id="{table.name}"><figcaption>{title}</figcaption>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{title}"><table>\n'
        f"<thead><tr>{top}</tr></thead>\n<tbody>\n{chr(10).join(body)}\n</tbody></table></div>\n"
        f"{f'<ul class=notes>{notes}</ul>' if notes else ''}</figure>"
    )


def _row_header(lines: Sequence[Line]) -> str:
    """The name of a line and of those below it that have none."""
    below = next((n for n, item in enumerate(lines[1:]) if item.cells[0].text), len(lines) - 1)
    span = f' rowspan="{below + 1}"' if below else ""
    return f'<th scope="row" class="words"{span}>{_html_cell(lines[0].cells[0])}</th>'


def _starred(cell: Cell) -> str:
    return f"**{plain(cell.text)}**" if cell.bold else plain(cell.text)


def _whole(heading: str) -> str:
    """A heading that breaks between words, but neither within a norm's label nor before its mark."""
    return entities.escape(heading).replace("-", "\N{NON-BREAKING HYPHEN}").replace(" †", "\N{NO-BREAK SPACE}†")


def _html_cell(cell: Cell, kind: str = "words") -> str:
    text = entities.escape(cell.text)
    text = text.replace(" ± ", "±") if kind == "number" else text  # as the paper prints it: wide tables fit
    return f"<strong>{text}</strong>" if cell.bold else text


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
