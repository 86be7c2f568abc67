"""Omniglot (Lake et al., 2015): 1623 characters of 50 alphabets, 20 drawings each; strokes white on black.

Three ways to split it are in use: MAML's 1100, 100 and 423 characters (Finn et al., 2017), Vinyals' alphabets
with each rotation as a class of its own (Vinyals et al., 2016; lists as in Snell et al., 2017), and
Meta-Dataset's alphabets in two levels (Triantafillou et al., 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import numpy as np

from tasknorm.data.formats.pixels import Pixels, decoded, nearest
from tasknorm.data.formats.tree import Tree
from tasknorm.data.sources.source import bilevel_spec, plain_spec, shuffled
from tasknorm.data.spec import Spec
from tasknorm.errors import DataError, at

Drawings: TypeAlias = Mapping[str, int]  # "Alphabet/characterNN" -> how many drawings

PARTS = ("images_background", "images_evaluation")
CHARACTERS = 1623
TURNS = ("rot000", "rot090", "rot180", "rot270")
VINYALS_VALID = ("Hebrew", "Mkhedruli_(Georgian)", "Armenian", "Early_Aramaic", "Bengali")
VINYALS_TEST = (
    *("Kannada", "Keble", "Malayalam", "Manipuri", "Mongolian", "Old_Church_Slavonic_(Cyrillic)", "Oriya"),
    *("Syriac_(Serto)", "Sylheti", "Tengwar", "Tibetan", "ULOG"),
)
VINYALS_TEST_CHARACTERS = tuple(f"Gurmukhi/character{number}" for number in range(42, 46))
ALPHABETS_VALID = (
    "Blackfoot_(Canadian_Aboriginal_Syllabics)",
    "Ojibwe_(Canadian_Aboriginal_Syllabics)",
    "Inuktitut_(Canadian_Aboriginal_Syllabics)",
    "Tagalog",
    "Alphabet_of_the_Magi",
)
ALPHABETS_TEST = (
    *(
        "Angelic",
        "Atemayar_Qelisayer",
        "Atlantean",
        "Aurek-Besh",
        "Avesta",
        "Ge_ez",
        "Glagolitic",
        "Gurmukhi",
    ),
    *("Kannada", "Keble", "Malayalam", "Manipuri", "Mongolian", "Old_Church_Slavonic_(Cyrillic)", "Oriya"),
    *("Sylheti", "Syriac_(Serto)", "Tengwar", "Tibetan", "ULOG"),
)


def maml(drawings: Drawings) -> Spec:
    """1100, 100 and 423 characters of all alphabets.

    Differs from the original: its order came from the file system; this one is the same on every machine.
    """
    order = shuffled(sorted(drawings))
    parts = {"train": order[:1100], "valid": order[1100:1200], "test": order[1200:]}
    return plain_spec("omniglot", {split: {c: drawings[c] for c in sorted(part)} for split, part in parts.items()})


def vinyals(drawings: Drawings) -> Spec:
    """1028, 172 and 423 characters by alphabet; each of their four rotations is a class."""
    parts: dict[str, dict[str, int]] = {"train": {}, "valid": {}, "test": {}}
    for character, count in drawings.items():
        parts[_vinyals_split(character)].update({f"{character}/{turn}": count for turn in TURNS})
    return plain_spec("omniglot_vinyals", parts)


def _vinyals_split(character: str) -> str:
    alphabet = character.split("/")[0]
    if alphabet in VINYALS_TEST or character in VINYALS_TEST_CHARACTERS:
        return "test"
    return "valid" if alphabet in VINYALS_VALID else "train"


def alphabets(drawings: Drawings) -> Spec:
    """25, 5 and 20 alphabets; variable episodes draw an alphabet first."""
    parts: dict[str, dict[str, dict[str, int]]] = {"train": {}, "valid": {}, "test": {}}
    for character, count in drawings.items():
        alphabet, name = character.split("/")
        split = "test" if alphabet in ALPHABETS_TEST else "valid" if alphabet in ALPHABETS_VALID else "train"
        parts[split].setdefault(alphabet, {})[name] = count
    return bilevel_spec("omniglot_alphabets", parts)


class Omniglot:
    """Omniglot, from the official folders or zip archives.

    Args:
        path: a folder or zip archive that holds `images_background` and `images_evaluation`, or a folder that
            holds them as `images_background.zip` and `images_evaluation.zip`.
        splits: `maml`, `vinyals` or `alphabets`.

    Raises:
        DataError: if characters are missing.
    """

    channels = 1
    resize = staticmethod(nearest)

    def __init__(self, path: Path | str, splits: Callable[[Drawings], Spec] = maml) -> None:
        self.origin = str(Path(path).resolve())
        archives = [Path(path) / f"{part}.zip" for part in PARTS]
        self._trees = [Tree(path)] if not all(a.is_file() for a in archives) else [Tree(a) for a in archives]
        self._files = _files_by_character(self._trees)
        if len(self._files) != CHARACTERS:
            raise DataError(
                f"{at(path)}: Omniglot needs {CHARACTERS} characters in <alphabet>/<character> folders below "
                f"{' and '.join(PARTS)}, got {len(self._files)}; unpack or download both parts"
            )
        self._ink = lru_cache(maxsize=256)(_ink)  # a character's rotations are read one after the other
        self.spec = splits({character: len(files) for character, files in self._files.items()})

    def image(self, class_id: int, number: int) -> Pixels:
        (tree, name), turns = self._file(class_id, number)
        return np.ascontiguousarray(np.rot90(self._ink(tree, name), turns))

    def where(self, class_id: int, number: int) -> str:
        (tree, name), _ = self._file(class_id, number)
        return tree.where(name)

    def fingerprint(self) -> str:
        return " ".join(tree.fingerprint() for tree in self._trees)

    def _file(self, class_id: int, number: int) -> tuple[tuple[Tree, str], int]:
        """Where a drawing is, and by how many quarter turns its class is rotated."""
        alphabet, character, *turn = self.spec.class_names[class_id].split("/")
        return self._files[f"{alphabet}/{character}"][number], TURNS.index(turn[0]) if turn else 0


def _ink(tree: Tree, name: str) -> Pixels:
    """One drawing, `(105, 105, 1)`; the originals are black on white."""
    return 255 - decoded(tree.read(name), 1, tree.where(name))


def _files_by_character(trees: list[Tree]) -> dict[str, list[tuple[Tree, str]]]:
    """The drawings of each character, background alphabets first, all in alphabetical order."""
    found: dict[str, list[tuple[Tree, str]]] = {}
    for tree in trees:
        for name in tree.names:
            parts = PurePosixPath(name).parts
            if name.endswith(".png") and len(parts) >= 4 and parts[-4] in PARTS:
                found.setdefault(f"{parts[-3]}/{parts[-2]}", []).append((tree, name))
    return found
