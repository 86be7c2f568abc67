"""miniImageNet (Vinyals et al., 2016) with the splits of Ravi & Larochelle (2017): 64, 16 and 20 classes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tasknorm.data.formats.pixels import lanczos
from tasknorm.data.formats.tree import Tree
from tasknorm.data.sources.image_files import ImageFiles
from tasknorm.data.sources.source import plain_spec
from tasknorm.errors import DataError, at, reason, short

LISTS = {"train": "train.csv", "valid": "val.csv", "test": "test.csv"}


class MiniImagenet(ImageFiles):
    """Images and the three lists that name them.

    Args:
        path: a folder or zip archive with `train.csv`, `val.csv` and `test.csv` (columns `filename` and
            `label`) and the images they name, in any folder.

    Raises:
        DataError: if a list is missing or malformed, or names an image that is not there.
    """

    channels = 3
    resize = staticmethod(lanczos)

    def __init__(self, path: Path | str) -> None:
        self.tree = Tree(path)
        self.origin = str(Path(path).resolve())
        places = {PurePosixPath(name).name: name for name in self.tree.names}
        found = {split: self._listed(file, places) for split, file in LISTS.items()}
        counts = {split: {label: len(files) for label, files in part.items()} for split, part in found.items()}
        self.spec = plain_spec("mini_imagenet", counts)
        self._files = [files for part in found.values() for files in part.values()]

    def _listed(self, file: str, places: dict[str, str]) -> dict[str, list[str]]:
        """The files of each class, in the order of the list."""
        if file not in places:
            raise DataError(
                f"{at(self.tree.path)}: there is no {file} here; add Ravi and Larochelle's lists "
                f"({', '.join(LISTS.values())})"
            )
        found: dict[str, list[str]] = {}
        for line, (image, label) in self._lines(places[file]):
            if not image or not label or image not in places:
                raise DataError(
                    f"{self.tree.where(places[file])}, line {line}: a line must name an image that is here and its "
                    f"label, got {short(image)} and {short(label)}; correct the list or add the image"
                )
            found.setdefault(label, []).append(places[image])
        return dict(sorted(found.items()))

    def _lines(self, name: str) -> Iterator[tuple[int, tuple[str | None, str | None]]]:
        """Image and label of each line after the first, and its number."""
        try:
            text = self.tree.read(name).decode()
            for line, row in enumerate(csv.DictReader(io.StringIO(text)), start=2):
                yield line, (row.get("filename"), row.get("label"))
        except UnicodeDecodeError as error:
            where = f"{self.tree.where(name)}, byte {error.start}"
            raise DataError(f"{where}: a list must be UTF-8 text; save it so") from None
        except csv.Error as error:
            raise DataError(
                f"{self.tree.where(name)}: this is not a CSV file ({reason(error)}); correct the list"
            ) from None
