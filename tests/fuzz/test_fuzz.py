"""Damaged files are read or refused with a sentence: no other error, no hang, no excess of memory, no write outside."""

from __future__ import annotations

import sys
import time

import pytest

from fuzz import watched
from fuzz.fuzzer import fuzz
from fuzz.readers import READERS, Reader, files_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watches processes as Linux shows them")


def test_thousands_of_damaged_inputs() -> None:
    """`make fuzz` reads a million; each seed is another sample."""
    summary = fuzz(3000, seed=15)
    assert summary.found == []
    assert summary.inputs == 3000
    for name, counts in summary.outcomes.items():
        assert counts["read"] + counts["refused"] > 0, f"no input for {name}"
    refused = sum(counts["refused"] for counts in summary.outcomes.values())
    assert 1000 < refused < 2900  # some damages hardly matter, most do


def test_readers_accept_whole_files(tmp_path) -> None:
    sandbox = watched.Sandbox(tmp_path.resolve())
    for number, (name, reader) in enumerate(READERS.items()):
        for file in sandbox.files[name]:
            refused = name == "zip" and file.startswith(("lzma", "bzip2"))
            if not refused and not file.startswith(reader.keeps):
                reader.read(sandbox.folder(number), file)


def raises(*_: object) -> None:
    raise IndexError("somewhere")


def sleeps(*_: object) -> None:
    time.sleep(60)


def exits(*_: object) -> None:
    import os

    os._exit(3)


def takes_memory(*_: object) -> None:
    assert sum(bytearray(b"x" * (watched.MEMORY + (50 << 20)))[:: 1 << 12]) > 0


def writes_elsewhere(folder, _: str) -> None:
    elsewhere = folder.parent.parent.with_suffix(".elsewhere")
    elsewhere.touch()
    elsewhere.unlink()


def says_nothing(*_: object) -> None:
    raise watched.DataError("wrong")


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (raises, "raw exception"),
        (sleeps, "hang"),
        (exits, "crash"),
        (takes_memory, "memory"),
        (writes_elsewhere, "write outside"),
        (says_nothing, "message"),
    ],
)
def test_the_fuzzer_sees_what_must_not_be(read, kind, monkeypatch) -> None:
    monkeypatch.setattr("fuzz.fuzzer.LIMIT", 1.0 if kind == "hang" else 30.0)  # memory takes its time on a busy machine
    for name in list(READERS):
        monkeypatch.delitem(READERS, name)
    monkeypatch.setitem(READERS, "one", Reader(files_of(a=b"x"), read))
    summary = fuzz(1)
    assert [found.kind for found in summary.found] == [kind]


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, second = (fuzz(300, seed=3) for _ in range(2))
    assert first.outcomes == second.outcomes
    assert fuzz(300, seed=4).outcomes != first.outcomes
