"""`python -m fuzz --inputs 1000000 --json out.json`: read damaged files for as long as you like."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from fuzz.fuzzer import fuzz


def main() -> int:
    """Exit code 1 if anything was found that must not be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many damaged files to read")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other damages")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    given = parser.parse_args()
    summary = fuzz(given.inputs, given.seed, lambda text: print(text, file=sys.stderr, flush=True))
    text = json.dumps(summary.as_json(given.seed), indent=1)
    if given.json is not None:
        given.json.write_text(text + "\n")
    for found in summary.found:
        print(f"{found.kind} in {found.reader!r}, input {found.case}: {found.site} {found.what}")
    read = sum(outcomes["read"] for outcomes in summary.outcomes.values())
    print(f"{summary.inputs:,} inputs in {summary.seconds:.0f} s: {read:,} read, {len(summary.found)} findings")
    return 1 if summary.found else 0


if __name__ == "__main__":
    sys.exit(main())
