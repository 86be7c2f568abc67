"""The paper's own numbers: every table with its means, intervals, bold print and average ranks; and what its authors
corrected later."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tasknorm.evaluation import Accuracy


@dataclass(frozen=True)
class PublishedTable:
    """One table of the paper.

    Attributes:
        name: its label in the paper, without `tab:`.
        columns: names as printed; `TBN-example` and `TBN/Example` are TBN with targets that arrive one by one.
        rows: the scores of each row, by column.
        bold: the columns that each row prints in bold.
        held_out: rows of data sets that meta-training does not see.
        average_rank: by column, as printed, with two decimals; columns without one are left out.
        corrected: scores that the authors published again after the paper, by row and column; in no average rank.
    """

    name: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, Accuracy]]
    bold: dict[str, set[str]]
    held_out: tuple[str, ...]
    average_rank: dict[str, float]
    corrected: dict[str, dict[str, Accuracy]]


@cache
def published() -> dict[str, PublishedTable]:
    """The tables of the paper by name.

    >>> str(published()["maml_results"].rows["Omniglot-5-1"]["TaskNorm-I"])
    '94.4 ± 0.8'
    """
    text = resources.files("tasknorm.report").joinpath("published.json").read_text(encoding="utf-8")
    found = {}
    for name, table in json.loads(text)["tables"].items():
        columns = tuple(table["columns"])
        cells = {row: dict(zip(columns, values, strict=True)) for row, values in table["rows"].items()}
        found[name] = PublishedTable(
            name,
            columns,
            {
                row: {c: Accuracy(mean / 100, ci / 100) for c, (mean, ci, _) in line.items()}
                for row, line in cells.items()
            },
            {row: {c for c, (*_, is_bold) in line.items() if is_bold} for row, line in cells.items()},
            tuple(table["held_out"]),
            table["average_rank"],
            _corrected(table.get("corrected")),
        )
    return found


def _corrected(values: dict[str, Any] | None) -> dict[str, dict[str, Accuracy]]:
    if values is None:
        return {}
    return {row: {values["column"]: Accuracy(mean / 100, ci / 100)} for row, (mean, ci) in values["rows"].items()}
