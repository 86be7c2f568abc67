"""A folder with everything that records have to say: tables, figures, claims, and one page of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tasknorm.durations import in_hours
from tasknorm.report import page, render
from tasknorm.report.claims import claims_table, findings
from tasknorm.report.drawing import saved
from tasknorm.report.gallery import FIGURES, gallery
from tasknorm.report.lookup import trained_tasks
from tasknorm.report.page import Fact, Report, Section
from tasknorm.report.places import KINDS, entries
from tasknorm.report.render import Table, line
from tasknorm.report.tables import paper_table
from tasknorm.runs import Record


def write_report(records: Sequence[Record], out: Path) -> list[Path]:
    """Writes report.html, report.md, claims.md, tables/ and figures/; the paths written.

    Raises:
        ValueError: if there is no record.
    """
    if not records:
        raise ValueError("a report needs the record of at least one finished run, got none")
    found = findings(records)
    tables = [paper_table(records, name) for name in KINDS if any(entries(records, name).values())]
    pictures = gallery(records)
    report = Report(
        "TaskNorm: our runs beside the paper",
        "Normalization for meta-learning: every table, figure and claim of the paper for which there are runs.",
        _facts(records, [finding.verdict for _, finding in found]),
        [
            Section("Claims", blocks=[claims_table(found)]),
            Section("Tables", _missing("tables", KINDS, [t.name for t in tables]), tables),
            Section("Figures", _missing("figures", FIGURES, [p.name for p in pictures]), pictures),
            Section("Runs", blocks=[runs_table(records)]),
        ],
    )
    texts = {out / "report.html": page.html(report), out / "report.md": page.markdown(report)}
    texts[out / "claims.md"] = render.markdown(claims_table(found)) + "\n"
    for table in tables:
        texts[out / "tables" / f"{table.name}.md"] = render.markdown(table) + "\n"
        texts[out / "tables" / f"{table.name}.tex"] = render.latex(table) + "\n"
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return [*texts, *(path for picture in pictures for path in saved(picture, out / "figures"))]


def runs_table(records: Sequence[Record]) -> Table:
    """What was run: one line for each record."""
    lines = []
    for record in records:
        s, result = record.settings, record.result
        variable = s.sampling == "variable"
        lines.append(
            line(
                [
                    record.folder.name,
                    s.kind.label,
                    s.source.replace(",", ", "),
                    s.norm,
                    s.alpha or "",
                    "variable" if variable else f"{s.way}-way {s.shot}-shot",
                    f"{s.iterations:,}",
                    f"{trained_tasks(record):,}",
                    in_hours(result["seconds"]),
                    f"{1000 * result['seconds_per_iteration']:.0f}",
                ]
            )
        )
    headings = (
        "run",
        "learner",
        "sources",
        "norm",
        "alpha",
        "tasks",
        "iterations",
        "tasks seen",
        "time",
        "ms / iteration",
    )
    return Table("runs", f"The {len(records)} runs", headings, tuple(lines), words=6)


def _facts(records: Sequence[Record], verdicts: Sequence[str]) -> list[Fact]:
    return [
        Fact(str(len(records)), "runs"),
        Fact(in_hours(sum(record.result["seconds"] for record in records)), "of training"),
        Fact(str(verdicts.count("holds")), "claims hold"),
        Fact(str(verdicts.count("does not hold")), "claims do not hold"),
        Fact(str(verdicts.count("not tested")), "claims not tested"),
    ]


def _missing(what: str, names: Iterable[str], there: Sequence[str]) -> list[str]:
    """A sentence on those of the paper's that have no runs."""
    missing = [name for name in names if name not in there]
    return [f"No runs for these of the paper's {what}: {', '.join(missing)}."] if missing else []
