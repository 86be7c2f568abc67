"""The paper's tables, with our runs next to its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasknorm.evaluation import Accuracy
from tasknorm.learners import LEARNERS
from tasknorm.report.average_rank import average_ranks, bold
from tasknorm.report.notes import notes
from tasknorm.report.places import KINDS, Column, Entries, entries, ranked_rows
from tasknorm.report.published import PublishedTable, published
from tasknorm.report.render import Cell, Line, Table, line
from tasknorm.runs import Record


def paper_table(records: Sequence[Record], name: str) -> Table:
    """One of the paper's tables: for each row our accuracies, then the paper's and those that its authors corrected
    later; average ranks at the bottom."""
    paper, found = published()[name], entries(records, name)
    ours = _lines_of_ours(KINDS[name].learner, found)
    lines: list[Line] = []
    for row, printed in paper.rows.items():
        rule = bool(lines) and row in paper.held_out[:1]
        for who, scores in ours.items():
            named = row if who == next(iter(ours)) else ""
            lines.append(_score_line(named, who, scores[row], paper.columns, rule and bool(named)))
        texts = (Cell(str(printed[c]), c in paper.bold[row]) for c in paper.columns)
        lines.append(line(["", "paper", *texts], "paper"))
        if again := paper.corrected.get(row):
            said = (str(again[c]) if c in again else "" for c in paper.columns)
            lines.append(line(["", "authors, corrected", *said], "paper"))
    lines += _rank_lines(paper, ours)
    headings = ("", "", *(Column.named(column).heading for column in paper.columns))
    title = f"{KINDS[name].title}: accuracy in %, ± 95 % interval"
    return Table(name, title, headings, tuple(lines), tuple(notes(name, found)), words=2)


def _lines_of_ours(learner: str, found: Entries) -> dict[str, dict[str, dict[str, Accuracy]]]:
    """Our accuracies by the label of their line, then by row, then by column."""
    scores = {row: {column: e.accuracy for column, e in line.items()} for row, line in found.items()}
    if not LEARNERS[learner].has_steps:
        return {"ours": scores}
    maxima = {row: {column: e.maximum for column, e in line.items()} for row, line in found.items()}
    return {"ours, best step": maxima, "ours, chosen step": scores}


def _score_line(row: str, who: str, scores: Mapping[str, Accuracy], columns: Sequence[str], rule: bool) -> Line:
    strong = bold(scores) if len(scores) > 1 else set()
    return line([row, who, *(Cell(str(scores[c]), c in strong) if c in scores else "" for c in columns)], rule=rule)


def _rank_lines(paper: PublishedTable, ours: dict[str, dict[str, dict[str, Accuracy]]]) -> list[Line]:
    """Our average ranks, the paper's over the same rows and columns, and the paper's as printed."""
    if not paper.average_rank:
        return []
    lines: list[tuple[str, Mapping[str, float]]] = []
    usable: dict[str, dict[str, Accuracy]] = {}
    for who, scores in ours.items():
        usable = ranked_rows(scores, paper.average_rank)
        lines.append((who, average_ranks(usable.values())))
    same = [{c: paper.rows[row][c] for c in columns} for row, columns in usable.items()]
    theirs = average_ranks(same)
    if usable and {c: round(rank, 2) for c, rank in theirs.items()} != paper.average_rank:
        lines.append((f"paper, same {len(usable)} row{'s' if len(usable) > 1 else ''}", theirs))
    lines.append(("paper", paper.average_rank))
    texts = [(who, [f"{ranks[c]:.2f}" if c in ranks else "" for c in paper.columns]) for who, ranks in lines]
    return [
        line(["Average rank" if place == 0 else "", who, *cells], "rank", rule=place == 0)
        for place, (who, cells) in enumerate(texts)
    ]
