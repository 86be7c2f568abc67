"""A table on a page: it scrolls in its own box, sorts by any column, and can be copied in three forms."""

from __future__ import annotations

import html as entities
import json
import re
from collections.abc import Sequence

from tasknorm.report.looks import LOOKS, series_class
from tasknorm.report.render import Cell, Line, Table, csv, csv_rows, latex, latex_row, markdown, markdown_row


def html(table: Table) -> str:
    """A figure that scrolls sideways in its own box, sorts by any column, and can be copied in three forms."""
    title, heads = entities.escape(table.title), table.headings
    classes = ["words" if place < table.words else "number" for place in range(len(heads))]
    top = "".join(_heading(h, c) for h, c in zip(heads, classes, strict=True))
    body = []
    for place, item in enumerate(table.lines):
        first, *others = zip(item.cells, classes, strict=True)
        cells = [] if place and not first[0].text else [_row_header(table.lines[place:])]
        cells += [f'<td class="{f"{c} {cell.mark}".strip()}">{_html_cell(cell, c)}</td>' for cell, c in others]
        kinds = f"{item.kind}{' rule' if item.rule else ''}"
        norm = first[0].text if first[0].text in LOOKS else ""
        known = f'class="{kinds} {series_class(norm)}" data-norm="{norm}"' if norm else f'class="{kinds}"'
        body.append(f'<tr {known} data-row="{place}">{"".join(cells)}</tr>')
    notes = "".join(f"<li>{entities.escape(note)}</li>" for note in table.notes)
    return (
        f'<figure class="table" id="{table.name}"><div class="caption"><figcaption>{title}</figcaption>'
        f'<span class="copy">Copy as {_COPY}</span></div>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{title}"><table>\n'
        f"<thead><tr>{top}</tr></thead>\n<tbody>\n{chr(10).join(body)}\n</tbody></table></div>\n"
        f"{f'<ul class=notes>{notes}</ul>' if notes else ''}"
        f'<script type="application/json">{_forms(table)}</script></figure>'
    )


_COPY = "".join(
    f'<button type="button" data-copy="{form}">{name}</button>'
    for form, name in (("markdown", "Markdown"), ("latex", "LaTeX"), ("csv", "CSV"))
)


def _heading(heading: str, kind: str) -> str:
    inner = f'<button type="button">{_whole(heading)}</button>' if heading else ""
    return f'<th scope="col" class="{kind}">{inner}</th>'


def _forms(table: Table) -> str:
    """What is copied, in each form: the text before the lines, each line, and the text after them, as JSON."""
    made = {}
    for form, whole, rows in (
        ("markdown", markdown(table) + "\n", [markdown_row(item) for item in table.lines]),
        ("latex", latex(table) + "\n", [latex_row(item) for item in table.lines]),
        ("csv", csv(table), csv_rows(table)),
    ):
        lines = "\n".join(rows)
        start = whole.index(lines)
        made[form] = {"before": whole[:start], "rows": rows, "after": whole[start + len(lines) :]}
    return json.dumps(made, ensure_ascii=False).replace("<", "\\u003c")


def _row_header(lines: Sequence[Line]) -> str:
    """The name of a line and of those below it that have none."""
    below = next((n for n, item in enumerate(lines[1:]) if item.cells[0].text), len(lines) - 1)
    span = f' rowspan="{below + 1}"' if below else ""
    return f'<th scope="row" class="words"{span}>{_html_cell(lines[0].cells[0])}</th>'


def _whole(heading: str) -> str:
    """A heading that breaks between words, but neither within a norm's label nor before its mark."""
    return entities.escape(heading).replace("-", "\N{NON-BREAKING HYPHEN}").replace(" †", "\N{NO-BREAK SPACE}†")


def _html_cell(cell: Cell, kind: str = "words") -> str:
    text = entities.escape(cell.text)
    if kind == "number":  # without blanks, as the paper prints it: wide tables fit
        text = re.sub(r" ± ([\d.]+)", r'<span class="interval">±\1</span>', text)
    else:
        text = re.sub(r" ± (?=\d)", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}", text)
    return f"<strong>{text}</strong>" if cell.bold else text
