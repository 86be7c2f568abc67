"""MNIST (LeCun et al., 1998): the 10,000 test digits, all classes for meta-test, as CNAPs uses them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tasknorm.data.formats.idx import read_idx
from tasknorm.data.formats.pixels import Pixels, lanczos
from tasknorm.data.formats.tree import stamp
from tasknorm.data.sources.source import plain_spec
from tasknorm.errors import DataError, at

FILES = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


class Mnist:
    """Digits, white on black.

    Args:
        path: a folder with the two official test files, plain or gzipped.

    Raises:
        DataError: if a file is missing or broken, or they do not belong together.
    """

    channels = 1
    resize = staticmethod(lanczos)

    def __init__(self, path: Path | str) -> None:
        self.origin = str(Path(path).resolve())
        self._paths = [_found(Path(path), file) for file in FILES]
        self._images, labels = (read_idx(file) for file in self._paths)
        if self._images.ndim != 3 or labels.shape != self._images.shape[:1] or int(labels.max()) > 9:
            raise DataError(
                f"{at(path)}: MNIST needs as many images (images, height, width) as labels from 0 to 9, got arrays of "
                f"{self._images.shape} and {labels.shape} with labels up to {labels.max()}; fetch both files again"
            )
        self._rows = [np.flatnonzero(labels == digit) for digit in range(10)]
        self.spec = plain_spec("mnist", {"test": {f"class_{i}": len(rows) for i, rows in enumerate(self._rows)}})

    def image(self, class_id: int, number: int) -> Pixels:
        image: Pixels = self._images[self._rows[class_id][number]]
        return image[:, :, None]

    def where(self, class_id: int, number: int) -> str:
        return f"{self._paths[0]}: image {self._rows[class_id][number]}"

    def fingerprint(self) -> str:
        return " ".join(stamp(path) for path in self._paths)


def _found(folder: Path, file: str) -> Path:
    for path in (folder / file, folder / f"{file}.gz"):
        if path.is_file():
            return path
    raise DataError(
        f"{at(folder)}: there is no {file} here, plain or gzipped; fetch it: `tasknorm data download mnist`"
    )
