"""Many damaged inputs in processes that may hang or die: what was read, what was refused, and what must not be."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any

import torch

from fuzz.readers import READERS
from fuzz.watched import MEMORY, Found, Sandbox, Watched, case_of, limit_memory, seconds

LIMIT = 20.0  # seconds that reading a file may take, at most
OUTCOMES = ("read", "refused", "failed")
PAUSED = 5.0  # seconds between two looks that are half a second apart
KEPT = 5  # findings of a kind and site that are listed


@dataclass
class Summary:
    """What came out.

    Args:
        inputs: how many.
        seconds: how long it took.
        outcomes: by reader, how often a damaged file was read, refused, or failed.
        slowest: seconds of the slowest input, by reader.
        found: what must not be.
    """

    inputs: int
    seconds: float
    outcomes: dict[str, dict[str, int]]
    slowest: dict[str, float]
    found: list[Found] = field(default_factory=list)

    def as_json(self, seed: int) -> dict[str, Any]:
        """Figures to keep."""
        counts = Counter(found.kind for found in self.found)
        kinds = ("raw exception", "message", "hang", "crash", "memory", "write outside")
        return {
            "inputs": self.inputs,
            "seed": seed,
            "readers": len(self.outcomes),
            "seconds": round(self.seconds, 1),
            "limits": {"seconds": LIMIT, "bytes": MEMORY},
            "found": {kind: counts[kind] for kind in kinds},
            "outcomes": self.outcomes,
            "slowest_seconds": {name: round(value, 3) for name, value in self.slowest.items()},
            "findings": [asdict(found) for found in self.found[:50]],
        }


class _Shared:
    """What a process and its watcher both see: it survives the process."""

    def __init__(self) -> None:
        self.now = RawArray("d", 2)  # number of the input in work, and when it began
        self.counts = RawArray("q", len(READERS) * len(OUTCOMES))
        self.slowest = RawArray("d", len(READERS))


def fuzz(inputs: int, seed: int = 0, say: Callable[[str], object] | None = None, keep_going: bool = True) -> Summary:
    """Read so many damaged inputs, one after the other, in a process that is watched.

    Args:
        inputs: how many.
        seed: of all that is random.
        say: is told of progress once in a while.
        keep_going: after something was found; else stop there.
    """
    torch.set_num_threads(1)
    memory = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="tasknorm-fuzz-", dir=memory if memory.is_dir() else None)).resolve()
    began, shared, found, number = seconds(), _Shared(), [], 0
    try:
        sandbox = Sandbox(place / "sandbox")
        while number < inputs:
            new, number = _watch(sandbox, shared, seed, number, inputs, say)
            found += new
            if found and not keep_going:
                break
        outcomes = {
            name: {o: shared.counts[i * len(OUTCOMES) + j] for j, o in enumerate(OUTCOMES)}
            for i, name in enumerate(READERS)
        }
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Summary(
        min(number, inputs), seconds() - began, outcomes, dict(zip(READERS, shared.slowest, strict=True)), found
    )


def _watch(
    sandbox: Sandbox, shared: _Shared, seed: int, start: int, stop: int, say: Callable[[str], object] | None
) -> tuple[list[Found], int]:
    """Run a process until it is done or must end: what was found, and the next input."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    shared.now[0], shared.now[1] = start, seconds()
    process = context.Process(target=_work, args=(sandbox, shared, seed, start, stop, sender), daemon=True)
    process.start()
    sender.close()
    found: list[Found] = []
    told, pause, looked = seconds(), 0.005, seconds()
    while process.is_alive():
        process.join(pause)
        if seconds() - looked > PAUSED:  # this process was stopped for a while, and the other with it
            shared.now[1] = seconds()
        looked = seconds()
        pause = min(0.5, 2 * pause)
        found += (new := _received(receiver))
        for each in new if say else ():
            say(f"{each.kind} in {each.reader!r}, input {each.case}: {each.site} {each.what[:200]}")
        if say and seconds() - told > 30:
            told = seconds()
            say(f"{int(shared.now[0]):,} inputs")
        if seconds() - shared.now[1] > LIMIT:
            process.kill()
            process.join()
            number = int(shared.now[0])
            what = f"not done after {LIMIT:.0f} seconds"
            return [*found, Found(case_of(seed, number)[0], number, "hang", "", what)], number + 1
    found += _received(receiver)
    number = int(shared.now[0])
    if process.exitcode == 0:
        return found, number
    what = f"the process ended with exit code {process.exitcode}"
    return [*found, Found(case_of(seed, number)[0], number, "crash", "", what)], number + 1


def _received(receiver: Any) -> list[Found]:
    """What a process has told since."""
    found = []
    with suppress(EOFError):
        while receiver.poll():
            found.append(Found(**json.loads(receiver.recv_bytes())))
    return found


def _work(sandbox: Sandbox, shared: _Shared, seed: int, start: int, stop: int, sender: Any) -> None:
    limit_memory()
    watched = Watched(sandbox)
    places = {name: place for place, name in enumerate(READERS)}
    seen: Counter[tuple[str, str, str]] = Counter()
    for number in range(start, stop):
        shared.now[0], shared.now[1] = number, (began := seconds())
        reader, outcome, found = watched.input(seed, number)
        place = places[reader]
        shared.counts[place * len(OUTCOMES) + OUTCOMES.index(outcome)] += 1
        shared.slowest[place] = max(shared.slowest[place], seconds() - began)
        if found is None:
            continue
        key = (found.reader, found.kind, found.site)
        seen[key] += 1
        if seen[key] <= KEPT:
            sender.send_bytes(json.dumps(asdict(found)).encode())
        if found.kind == "memory":  # the peak stays: go on in a new process
            shared.now[0], shared.now[1] = number + 1, time.monotonic()
            return
    shared.now[0] = stop
