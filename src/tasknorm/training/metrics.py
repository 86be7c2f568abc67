"""`metrics.jsonl`: a line of JSON for each iteration and each validation of a training."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasknorm.errors import DataError, at, reason
from tasknorm.machine import open_regular, read_regular

Line = dict[str, float]
LARGEST = 1 << 33  # bytes of a file
MOST_LOST = 10**6  # iterations whose lines may be missing between two others
EVERY = {"iteration", "seconds"}  # what each line has
STEP = EVERY | {"loss", "accuracy", "learning_rate", "context"}  # what the line of an iteration has


def read_metrics(path: Path) -> list[Line]:
    """All whole lines; none if there is no file. A last line without its end is left out: its writer was killed.

    Raises:
        DataError: names the first line that is damaged.
    """
    if not path.exists():
        return []
    try:
        *whole, _ = read_regular(path, LARGEST).split(b"\n")
    except OSError as error:
        raise DataError(f"{at(path)}: the metrics cannot be read ({reason(error)}); restore the file") from None
    found: list[Line] = []
    for number, line in enumerate(whole, 1):
        found.append(_parsed(line, place := at(path, f"line {number}")))
        before, now = (each["iteration"] for each in (found[-2:] if number > 1 else ({"iteration": 0}, found[0])))
        if not before <= now <= before + MOST_LOST or now != int(now):
            raise _damaged(place, f"an iteration from {before} on", line)
    return found


def last_metrics(path: Path, size: int = 1 << 16) -> list[Line]:
    """The last whole lines that can be read, for a look from outside; none if there is no file."""
    if not path.exists():
        return []
    with open_regular(path) as file:
        start = max(0, path.stat().st_size - size)
        file.seek(start)
        lines = file.read().split(b"\n")[1 if start else 0 : -1]
    found = []
    for line in lines:
        try:
            found.append(_parsed(line, str(path)))
        except DataError:
            continue  # the run itself refuses it
    return found


def missing_iterations(lines: Iterable[Line], last: int) -> list[int]:
    """The iterations from 1 to `last` that have no line."""
    return sorted(set(range(1, last + 1)) - {int(line["iteration"]) for line in lines if "loss" in line})


def as_text(lines: Iterable[Line]) -> str:
    """Lines as the file holds them."""
    return "".join(json.dumps(line) + "\n" for line in lines)


def _parsed(line: bytes, place: str) -> Line:
    try:
        values: Any = json.loads(line)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or not all(map(_is_number, values.values())):
        raise _damaged(place, "numbers by name, as JSON", line)
    if missing := (STEP if "loss" in values else EVERY) - set(values):
        raise _damaged(place, f"a value for {', '.join(sorted(missing))}", line)
    return values


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _damaged(place: str, wanted: str, line: bytes) -> DataError:
    start = line[:40].decode(errors="replace") + ("..." if len(line) > 40 else "")
    return DataError(f"{place}: damaged; it must hold {wanted}, got {start!r}; restore the file, or remove this line")
