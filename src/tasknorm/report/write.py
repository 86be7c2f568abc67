"""A folder with everything that records have to say: tables, figures, claims, and one page of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tasknorm.durations import in_hours
from tasknorm.errors import DataError
from tasknorm.files import atomic_folder, naming, remove_leftovers, sync
from tasknorm.report import page, render
from tasknorm.report.claims import claims_table, findings
from tasknorm.report.drawing import saved
from tasknorm.report.gallery import FIGURES, gallery
from tasknorm.report.lookup import trained_tasks
from tasknorm.report.page import Fact, Report, Section
from tasknorm.report.places import KINDS, entries
from tasknorm.report.render import Table, line
from tasknorm.report.seeds import seeds_table
from tasknorm.report.tables import paper_table
from tasknorm.runs import Record

OWN = ("report.html", "report.md", "claims.md", "tables", "figures")


def write_report(records: Sequence[Record], out: Path) -> list[Path]:
    """Write report.html, report.md, claims.md, tables/ and figures/ into a folder, all of them or none.

    Args:
        records: of finished runs.
        out: the folder; new, empty, or with an earlier report, which is replaced.

    Returns:
        The paths written.

    Raises:
        ValueError: if there is no record.
        DataError: if the folder holds anything but a report.
    """
    if not records:
        raise ValueError("a report needs the record of at least one finished run, got none")
    _check_place(out)
    found = findings(records)
    tables = all_tables(records)
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
    texts = {"report.html": page.html(report), "report.md": page.markdown(report)}
    texts["claims.md"] = render.markdown(claims_table(found)) + "\n"
    for table in tables:
        texts[f"tables/{table.name}.md"] = render.markdown(table) + "\n"
        texts[f"tables/{table.name}.tex"] = render.latex(table) + "\n"
    place = out.resolve()  # where a link points to, the folder is
    with atomic_folder(place, replace=True) as part:
        (part / "tables").mkdir()
        for name, text in texts.items():
            with naming(out / name):
                (part / name).write_text(text, encoding="utf-8")
                sync(part / name)
        with naming(out / "figures"):
            drawn = [path for picture in pictures for path in saved(picture, part / "figures")]
            for path in drawn:
                sync(path)
    return [*(out / name for name in texts), *(out / path.relative_to(part) for path in drawn)]


def all_tables(records: Sequence[Record]) -> list[Table]:
    """The paper's tables for which there are runs, each followed by its differences over seeds if it has several."""
    there = [name for name in KINDS if any(entries(records, name).values())]
    both = [(paper_table(records, name), seeds_table(records, name)) for name in there]
    return [table for pair in both for table in pair if table]


def _check_place(out: Path) -> None:
    """Refuse a folder that holds other things, which would be lost with the report that is replaced."""
    if out.resolve() == Path.cwd():
        raise DataError(f"{out}: a report cannot replace the folder that you are in; choose another with --out")
    place = out.resolve()
    if place.parent.is_dir():
        remove_leftovers(place.parent, place.name)
    others = sorted(path.name for path in place.iterdir() if path.name not in OWN) if place.is_dir() else []
    if others:
        raise DataError(
            f"{out}: this folder holds {others[0]!r}, which is no part of a report; choose another with --out"
        )


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
