"""Average rank and bold print by the greedy rule of Meta-Dataset's leaderboard, as the paper uses it (section 5).

In each row, the best method and all methods that do not differ from it form the first group. The next group is formed
in the same way from the remaining methods, and so on. Each member is compared with the best of its group only. The
members of a group share the mean of the places that they take. The paper prints the first group in bold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tasknorm.evaluation import Accuracy, differ

Row = Mapping[str, Accuracy]


def groups(row: Row) -> list[list[str]]:
    """The methods of a row in groups that do not differ, the best group first, and the best of each group first.

    >>> groups({"CBN": Accuracy(0.20, 0.01), "TBN": Accuracy(0.98, 0.01), "RN": Accuracy(0.97, 0.01)})
    [['TBN', 'RN'], ['CBN']]
    """
    remaining = sorted(row, key=lambda method: -row[method].mean)
    found = []
    while remaining:
        best = row[remaining[0]]
        tied = [method for method in remaining if not differ(best, row[method])]
        found.append(tied)
        remaining = [method for method in remaining if method not in tied]
    return found


def ranks(row: Row) -> dict[str, float]:
    """The rank of each method in a row: t methods that tie at place p all get p + (t - 1) / 2.

    >>> ranks({"CBN": Accuracy(0.20, 0.01), "TBN": Accuracy(0.98, 0.01), "RN": Accuracy(0.97, 0.01)})
    {'TBN': 1.5, 'RN': 1.5, 'CBN': 3.0}
    """
    found: dict[str, float] = {}
    for tied in groups(row):
        place = len(found) + 1
        found |= dict.fromkeys(tied, place + (len(tied) - 1) / 2)
    return found


def average_ranks(rows: Iterable[Row]) -> dict[str, float]:
    """The mean rank of each method over rows that hold the same methods; empty if there are no rows.

    Raises:
        ValueError: if a row lacks a method that another has.
    """
    tables = [ranks(row) for row in rows]
    if any(set(table) != set(tables[0]) for table in tables):
        methods = sorted({method for table in tables for method in table})
        lacking = [method for method in methods if any(method not in table for table in tables)]
        raise ValueError(
            f"an average rank needs the same methods in every row, but some rows lack {', '.join(lacking)}; "
            "leave those rows out"
        )
    return {method: sum(table[method] for table in tables) / len(tables) for method in tables[0]} if tables else {}


def bold(row: Row) -> set[str]:
    """The methods to print in bold, as in the paper: the best of a row and all that do not differ from it."""
    return set(groups(row)[0]) if row else set()
