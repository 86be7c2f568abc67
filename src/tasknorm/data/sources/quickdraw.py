"""Quick, Draw! (Google, 2017): the 28 x 28 bitmaps, a `<class>.npy` of shape (drawings, 784) per class."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path, PurePosixPath

import numpy as np

from tasknorm.data.formats.npy import START, npy_header
from tasknorm.data.formats.pixels import Pixels, bilinear
from tasknorm.data.formats.tree import Tree
from tasknorm.data.sources.folder import ClassSplits, read_splits, splits_of
from tasknorm.data.sources.source import plain_spec
from tasknorm.data.spec import SPLITS
from tasknorm.errors import DataError, at, one_line

SIDE = 28
RULE = f"a class must be a whole .npy file of uint8 and shape (drawings, {SIDE * SIDE})"


class QuickDraw:
    """Drawings by class, strokes white on black.

    Args:
        path: a folder or zip archive of `<class>.npy` files.
        splits: as for `Folder`.

    Raises:
        DataError: if a file is no such bitmap file, or the splits do not name the classes found.
    """

    channels = 1
    resize = staticmethod(bilinear)

    def __init__(self, path: Path | str, splits: ClassSplits | Path | str | None = None) -> None:
        self.tree = Tree(path)
        self.origin = str(Path(path).resolve())
        self._files = {PurePosixPath(name).stem: name for name in self.tree.names if name.endswith(".npy")}
        if not self._files:
            raise DataError(f"{at(path)}: there is no <class>.npy file here; correct the path")
        if isinstance(splits, (str, Path)):
            splits = read_splits(Path(splits), "quickdraw")
        chosen = splits_of(self._files, splits, str(path))
        counts = {split: {name: self._drawings(name) for name in chosen[split]} for split in SPLITS}
        self.spec = plain_spec("quickdraw", counts)
        self._bitmaps = lru_cache(maxsize=8)(self._read)

    def image(self, class_id: int, number: int) -> Pixels:
        bitmap: Pixels = self._bitmaps(class_id)[number]
        return bitmap.reshape(SIDE, SIDE, 1)

    def where(self, class_id: int, number: int) -> str:
        return f"{self.tree.where(self._files[self.spec.class_names[class_id]])}:{number}"

    def fingerprint(self) -> str:
        return self.tree.fingerprint()

    def _drawings(self, class_name: str) -> int:
        """How many drawings a class has, from its file's header; checks that the file is as long as that."""
        return self._header(self._files[class_name])[0][0]

    def _header(self, name: str) -> tuple[tuple[int, ...], int]:
        """The shape `(drawings, 784)` of a file, and where its data begins."""
        try:
            shape, begin = npy_header(self.tree.start(name, START), self.tree.size(name))
            if len(shape) != 2 or shape[1] != SIDE * SIDE:
                raise ValueError(f"the shape {shape}")
        except DataError:
            raise
        except ValueError as error:
            raise DataError(f"{self.tree.where(name)}: {RULE}, got {one_line(str(error))}; fetch it again") from error
        return shape, begin

    def _read(self, class_id: int) -> Pixels:
        """`(drawings, 784)`; mapped, if it is a file of its own."""
        name = self._files[self.spec.class_names[class_id]]
        shape, begin = self._header(name)
        if self.tree.path.is_dir():
            return np.memmap(self.tree.path / name, np.uint8, "r", begin, shape)
        return np.frombuffer(self.tree.read(name), np.uint8, offset=begin).reshape(shape)
