"""The report in `results/report`, as pages: claims first, then tables, figures and runs."""

from __future__ import annotations

import re

from making.links import ROOT

REPORT = "results/report/report.md"
BEGINNING = """# The paper, checked

The paper is [TaskNorm: Rethinking Batch Normalization for Meta-Learning](https://arxiv.org/abs/2003.03284) (Bronskill,
Gordon, Requeima, Nowozin and Turner, ICML 2020). Its tables and figures were re-run at the scale that two cores can do;
[What was run](runs.md) says how they differ from the paper's, what reproduced and what did not. Each claim below was
checked by a rule that is written beside it. `tasknorm report` wrote this page, the [tables](tables.md) and the
[figures](figures.md) from the records of the runs; nothing was typed by hand.

"""


def sections() -> dict[str, str]:
    """The report's parts by heading, without it; what stands before the first is under an empty heading."""
    parts = re.split(r"^## (.+)\n", (ROOT / REPORT).read_text(), flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def paper_pages() -> dict[str, str]:
    """Pages by path, whose links are those of the report."""
    found = sections()
    summary = [line for line in found[""].splitlines() if line.startswith("- ")]
    return {
        "paper/index.md": BEGINNING + "\n".join(summary) + "\n\n" + _claims(found["Claims"]),
        "paper/tables.md": "# Tables\n\n" + _raised(found["Tables"]),
        "paper/figures.md": "# Figures\n\n" + _raised(found["Figures"]),
        "paper/each-run.md": "# Each run\n\n" + _raised(found["Runs"]),
    }


def _claims(table: str) -> str:
    """The table of claims as a section each: its four columns are too wide for a phone."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines() if line.startswith("| ")]
    page = ""
    for claim, verdict, rule, numbers in ([cell.strip() for cell in row] for row in rows[1:]):
        if set(claim) == {"-"}:
            continue
        kind = {"✓": "success", "✗": "failure"}.get(verdict.strip("*")[:1], "question")
        says = verdict.strip("*").lstrip("✓✗ ").capitalize()
        lines = [f"**{says}.** {numbers}", "", f"It holds if: {rule}"]
        page += f'!!! {kind} "{claim}"\n\n' + "".join(f"    {line}\n" if line else "\n" for line in lines) + "\n"
    notes = [line for line in table.splitlines() if line.startswith("- ")]
    return page.replace(r"\|", "|") + "\n".join(notes) + "\n"


def _raised(text: str) -> str:
    """Headings one level higher, since each part is a page of its own."""
    return re.sub(r"^### ", "## ", text, flags=re.MULTILINE)
