"""How long `make demo` takes, how that time is spent, and what it can tell apart.

The comparison runs as the command does, in a process of its own, and is then read back. Shares are of the wall time of
all cores: training and testing are what the table needs; `other` is starting processes, reading images, writing
checkpoints, the page, and waiting for the last training.

    python benchmarks/compare.py           prints a table; takes two minutes on two cores
    python benchmarks/compare.py --json    prints JSON
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tasknorm.compare import COMPARED, compare
from tasknorm.machine import cores
from tasknorm.report import Comparison


def apart(found: Comparison, norm: str, other: str, come: str = "all") -> bool:
    """Whether a norm is told from another one, or from itself as targets arrive otherwise, at 95 %."""
    difference = found.paired(norm, other, "all", come)  # type: ignore[arg-type]
    return abs(difference.mean) > difference.interval


def told_apart(found: Comparison) -> dict[str, bool]:
    """What a comparison should be able to tell."""
    others = [norm for norm in found.norms if norm != "CBN"]
    return {
        "CBN from all others": all(apart(found, "CBN", norm) for norm in others),
        "LN or IN from TaskNorm-I": any(apart(found, norm, "TaskNorm-I") for norm in ("LN", "IN")),
        "TBN all at once from TBN by example": apart(found, "TBN", "TBN", "example"),
    }


def measured(seeds: int, iterations: int | None, tasks: int) -> dict[str, Any]:
    """Seconds, shares and separations of a comparison."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "demo"
        words = ["compare", "--seeds", str(seeds), "--tasks", str(tasks), "--out", str(out)]
        words += [] if iterations is None else ["--iterations", str(iterations)]
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "tasknorm", *words], check=True, capture_output=True)
        seconds = time.monotonic() - began
        question = {"learner": "maml", "iterations": iterations, "test_tasks": tasks}
        question |= {"source": "glyphs", "way": 5, "shot": 1}
        (found,) = compare(question, COMPARED, out, seeds=seeds)
        shares = {what: spent / seconds for what, spent in found.spent.items()}
        return {
            "seconds": round(seconds, 1),
            "cores": cores(),
            "shares": {what: round(share, 3) for what, share in (shares | {"other": 1 - sum(shares.values())}).items()},
            "apart": told_apart(found) if seeds > 1 else {},
            "accuracies": {norm: str(found.accuracy(norm)) for norm in found.norms},
        }


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, help="in place of the preset's")
    parser.add_argument("--tasks", type=int, default=200)
    chosen = parser.parse_args()
    found = measured(chosen.seeds, chosen.iterations, chosen.tasks)
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['seconds']:.0f} s on {found['cores']} cores")
    for what, share in found["shares"].items():
        print(f"{what:12} {share:6.1%}")
    for what, can in found["apart"].items():
        print(f"{what}: {'yes' if can else 'NO'}")


if __name__ == "__main__":
    main()
