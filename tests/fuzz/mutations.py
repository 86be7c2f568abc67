"""Ways to damage a file: bits, bytes, numbers, JSON values, and what stands at its path."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from pathlib import Path
from random import Random
from typing import Any

NUMBERS = (0, 1, -1, 2, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, 10**30)
TEXTS = (
    "",
    "\0",
    "²",
    "\ud800",
    "caf\udce9",
    "../../evil",
    "/etc/passwd",
    "a\nb",
    "1e999",
    "NaN",
    "x" * 3000,
    "📷" * 9,
)
TOKENS = (
    *(b"(", b"[", b"{", b'"', b"'", b"\\", b"\n", b"\r\n", b",", b"\0", b"\0" * 64, b"\xff" * 64, b"\xff\xfe"),
    *(
        b"NaN",
        b"Infinity",
        b"1e999",
        b"-1",
        b"null",
        b"\xc2\xb2",
        b"True",
        b"=",
        b"..",
        b"/",
        b"[" * 3000,
        b'{"a":' * 3000,
    ),
)
PATHS = ("missing", "empty", "folder", "pipe", "endless", "random", "nowhere", "itself", "outside", "null", "renamed")
NAMES = (b"\xff\xfe.png", "²".encode(), b"new\nline.png", b"a" * 200, b"0", b"-.npy", b"\xe2\x80\xae.json")


def mutated(content: bytes, other: bytes, random: Random) -> bytes:
    """One to four damages; JSON is damaged as JSON half of the time.

    Args:
        content: of a file.
        other: of another, parts of which may be put in.
        random: decides all.
    """
    if content[:1] in b"{[" and random.random() < 0.5:
        try:
            return mutated_json(content, random)
        except ValueError:
            pass
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        content = random.choice(DAMAGES)(content, other, random)
    return content


def flipped(content: bytes, other: bytes, random: Random) -> bytes:
    result = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8, 64)) if content else 0):
        result[random.randrange(len(result))] ^= 1 << random.randrange(8)
    return bytes(result)


def cut(content: bytes, other: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def inserted(content: bytes, other: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    new = random.choice(TOKENS) if random.random() < 0.7 else random.randbytes(random.randrange(1, 40))
    return content[:at] + new + content[at:]


def deleted(content: bytes, other: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    return content[:at] + content[at + random.choice((1, 2, 4, 16, 256)) :]


def spliced(content: bytes, other: bytes, random: Random) -> bytes:
    source = random.choice((content, other))
    start, at = random.randrange(len(source) + 1), random.randrange(len(content) + 1)
    part = source[start : start + random.choice((4, 30, 400))]
    return content[:at] + part + content[at + random.choice((0, len(part))) :]


def renumbered(content: bytes, other: bytes, random: Random) -> bytes:
    """Another binary number of 1 to 8 bytes in some place, often near the start, where headers are."""
    form = random.choice("BHIQ")
    end = len(content) if random.random() < 0.5 else min(len(content), 64)
    at, size = random.randrange(end + 1), struct.calcsize(form)
    if at + size > len(content):
        return content
    order = random.choice("<>")
    (old,) = struct.unpack_from(order + form, content, at)
    new = random.choice((*NUMBERS, old + 1, old - 1, 2 * old)) % 2 ** (8 * size)
    return content[:at] + struct.pack(order + form, new) + content[at + size :]


def redigited(content: bytes, other: bytes, random: Random) -> bytes:
    """Another number in place of some digits, as text has them."""
    found = list(re.finditer(rb"-?\d+", content[:100_000]))
    if not found:
        return renumbered(content, other, random)
    digits = random.choice(found)
    new = random.choice((*NUMBERS, int(digits[0][:30]) + 1, "1e999", "NaN", "٣", "²", "0.5", "9" * 5000))
    return content[: digits.start()] + str(new).encode() + content[digits.end() :]


DAMAGES = (flipped, cut, inserted, deleted, spliced, renumbered, redigited)


def mutated_json(content: bytes, random: Random) -> bytes:
    """One or two values or keys of a JSON text in place of others."""
    value = [json.loads(content)]
    for _ in range(random.choice((1, 1, 2))):
        place, key = random.choice(list(_places(value)))
        action = random.random()
        if action < 0.15:
            del place[key]
        elif action < 0.25 and isinstance(place, dict):
            place[random.choice(TEXTS)] = place.pop(key)
        elif action < 0.4:
            other, there = random.choice(list(_places(value)) or [(place, key)])
            copied = json.dumps(other[there])
            place[key] = json.loads(copied)
        else:
            place[key] = _another(place[key], random)
        if not value:
            break
    text = json.dumps(value[0] if value else None)
    depth = random.choice((200, 900, random.randrange(900, 1000), 5000))  # Python's limit is about 1,000
    return text.replace('"<deep>"', "[" * depth + "]" * depth).encode()


def _another(old: Any, random: Random) -> Any:
    near = [old + 1, old - 1, -old, 0.5 * old] if isinstance(old, int | float) and abs(old) < 1e300 else []
    kinds = (None, True, False, [], {}, 0.5, float("nan"), float("inf"), 1e308, "<deep>", [old], {"a": old}, [[], {}])
    return random.choice((*near, *near, *NUMBERS, *TEXTS, *kinds))


def _places(value: Any) -> Any:
    """Container and key of every value in it, however deep."""
    waiting = [value]
    while waiting:
        container = waiting.pop()
        for key in list(container) if isinstance(container, dict) else range(len(container)):
            yield container, key
            if isinstance(container[key], dict | list):
                waiting.append(container[key])


def at_path(path: Path, how: str, random: Random) -> None:
    """Put something else than a regular file where one is."""
    content = path.read_bytes()
    path.unlink()
    links = {"endless": "/dev/zero", "random": "/dev/urandom", "null": "/dev/null", "outside": "/etc/passwd"}
    if how in links:
        path.symlink_to(links[how])
    elif how == "nowhere":
        path.symlink_to(path.with_name("nowhere"))
    elif how == "itself":
        path.symlink_to(path)
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "renamed":
        Path(os.fsdecode(os.path.join(os.fsencode(path.parent), random.choice(NAMES)))).write_bytes(content)


def restore(folder: Path, files: dict[str, bytes], name: str) -> None:
    """Put a folder back as it was, after the file `name` or what stood at its path was damaged."""
    path = folder / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
    for left in path.parent.iterdir():
        if left.relative_to(folder).as_posix() not in files and not left.is_dir():
            left.unlink()
    path.write_bytes(files[name])
