"""One process that reads damaged files, and what it may not do meanwhile: write elsewhere, run others, unpickle."""

from __future__ import annotations

import os
import resource
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from fuzz.mutations import PATHS, at_path, mutated, restore
from fuzz.readers import READERS, Reader
from tasknorm.errors import DataError, SettingsError, WeightsError

OUR_ERRORS = (DataError, SettingsError, WeightsError)
MEMORY = 600 << 20  # bytes that reading a file may take, at most
LONGEST = 2000  # characters of a message
# Events, with the places of the paths that they change and of the open folders that these are relative to.
CHANGES: dict[str, dict[int, int | None]] = {
    "os.rename": {0: 2, 1: 3},
    "os.remove": {0: 1},
    "os.rmdir": {0: 1},
    "os.mkdir": {0: 2},
    "os.link": {1: 3},
    "os.symlink": {1: 2},
    "os.truncate": {0: None},
    "os.chmod": {0: 2},
}
NEVER = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "pickle.find_class")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Found:
    """Something that must not be.

    Args:
        reader: which.
        case: the number of the input.
        kind: "raw exception", "message", "write outside", "memory", "hang" or "crash".
        site: where it comes from.
        what: in words.
    """

    reader: str
    case: int
    kind: str
    site: str
    what: str


class Sandbox:
    """A folder with the whole files of each reader.

    Args:
        path: an empty folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, dict[str, bytes]] = {}
        for number, (name, reader) in enumerate(READERS.items()):
            folder = self.folder(number)
            folder.mkdir(parents=True)
            reader.write(folder)
            paths = sorted(path for path in folder.rglob("*") if path.is_file())
            self.files[name] = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}

    def folder(self, number: int) -> Path:
        """Of the reader of this number."""
        return self.path / f"{number:02}"


def case_of(seed: int, number: int) -> tuple[str, Random]:
    """The reader of an input, and the source of all that is random about it."""
    random = Random((seed << 40) + number)
    names = list(READERS)
    return random.choices(names, [READERS[name].weight for name in names])[0], random


class Watched:
    """Reads inputs one by one and tells what went wrong.

    Args:
        sandbox: where files are damaged; nothing outside may change.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.outside: list[str] = []
        self.watching = False
        self.names = list(READERS)
        sys.addaudithook(self._hook)
        warnings.simplefilter("ignore")

    def input(self, seed: int, number: int) -> tuple[str, str, Found | None]:
        """Damage a file, read it, put it back: the reader, "read" or "refused", and what was wrong with that."""
        name, random = case_of(seed, number)
        reader, files = READERS[name], self.sandbox.files[name]
        folder = self.sandbox.folder(self.names.index(name))
        chosen = random.choice([file for file in files if not file.startswith(reader.keeps)])
        damage(folder, chosen, files, reader, random)
        try:
            outcome, kind, site, what = self._read(reader, folder, chosen)
        finally:
            restore(folder, files, chosen)
            if name.startswith(("checkpoint", "cache")):
                rewrite(folder, files)
        return name, outcome, Found(name, number, kind, site, what) if kind else None

    def _read(self, reader: Reader, folder: Path, chosen: str) -> tuple[str, str, str, str]:
        self.outside.clear()
        before, highest = _resident(), _highest()
        self.watching = True
        outcome, kind, site, what = "read", "", "", ""
        try:
            reader.read(folder, chosen)
        except OUR_ERRORS as error:
            outcome, text = "refused", str(error)
            wrong = not text.isprintable() or len(text) > LONGEST or (reader.names_file and str(folder) not in text)
            if wrong:
                kind, site, what = "message", _site(error), text[:LONGEST]
        except Exception as error:
            outcome, kind, site = "failed", "raw exception", f"{type(error).__name__} at {_site(error)}"
            what = str(error)[:300]
        finally:
            self.watching = False
        if self.outside:
            kind, site, what = "write outside", self.outside[0][:200], self.outside[0][:200]
        # The peak of all inputs so far; this one set it if it grew. What a process holds from earlier ones is not its.
        if (peak := _highest()) > highest and peak - before > MEMORY:
            kind, site, what = "memory", "", f"{(peak - before) >> 20} MiB"
        return outcome, kind, site, what

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watching or event not in EVENTS:
            return
        self.watching = False  # what follows may cause events itself
        try:
            if event in NEVER:
                self.outside.append(f"{event} {arguments!r}"[:200])
            elif event != "open":
                for place, held in CHANGES[event].items():
                    self._check(event, arguments[place], arguments[held] if held is not None else -1)
            elif isinstance(arguments[2], int) and arguments[2] & WRITES:
                self._check(event, arguments[0], -1)
        finally:
            self.watching = True

    def _check(self, event: str, path: object, held: int) -> None:
        """Note a path outside the sandbox; it may be relative to a folder that is open as `held`."""
        if isinstance(path, (str, bytes, os.PathLike)):
            base = os.readlink(f"/proc/self/fd/{held}") if held >= 0 else "."
            folder = os.path.realpath(os.path.join(base, os.path.dirname(os.fsdecode(path))))
            full = f"{folder}/x"
            if not full.startswith(f"{self.sandbox.path}/") and os.fsdecode(path) != os.devnull:
                self.outside.append(f"{event} {os.fsdecode(path)}")


EVENTS = frozenset((*CHANGES, *NEVER, "open"))


def _resident() -> int:
    """Bytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _highest() -> int:
    """The most bytes that this process ever had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def damage(folder: Path, chosen: str, files: dict[str, bytes], reader: Reader, random: Random) -> None:
    """Damage one of the files of a reader."""
    if random.random() < 0.03:
        at_path(folder / chosen, random.choice(PATHS), random)
        return
    content, other = files[chosen], files[random.choice(list(files))]
    if reader.inner is not None and random.random() < 0.6:
        content = reader.inner(chosen, content, other, random)
    else:
        content = mutated(content, other, random)
    (folder / chosen).write_bytes(content)


def rewrite(folder: Path, files: dict[str, bytes]) -> None:
    """Put all files of a folder back, and remove others."""
    for path in [path for path in folder.rglob("*") if path.is_file() or path.is_symlink()]:
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, content in files.items():
        if not (folder / name).is_file() or (folder / name).stat().st_size != len(content) or name.endswith(".json"):
            (folder / name).write_bytes(content)


def _site(error: BaseException) -> str:
    """The last line of our package that an error passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/tasknorm/" in frame.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"


def limit_memory() -> None:
    """A reader that asks for far more than `MEMORY` gets a MemoryError, and the machine stays usable."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        most = pages * resource.getpagesize() + 2 * MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def seconds() -> float:
    """The clock of all processes."""
    return time.monotonic()
