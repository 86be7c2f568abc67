"""miniImageNet (Vinyals et al., 2016) with the splits of Ravi & Larochelle (2017): 64, 16 and 20 classes."""

from __future__ import annotations

import csv
import io
from pathlib import Path, PurePosixPath

from tasknorm.data.formats.pixels import lanczos
from tasknorm.data.formats.tree import Tree
from tasknorm.data.sources.image_files import ImageFiles
from tasknorm.data.sources.source import plain_spec
from tasknorm.errors import DataError

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
                f"{self.tree.path}: miniImageNet comes with {', '.join(LISTS.values())}, got no {file}; add "
                "Ravi and Larochelle's lists"
            )
        found: dict[str, list[str]] = {}
        text = self.tree.read(places[file]).decode(errors="replace")
        for line, row in enumerate(csv.DictReader(io.StringIO(text)), start=2):
            image, label = row.get("filename"), row.get("label")
            if not image or not label or image not in places:
                raise DataError(
                    f"{self.tree.where(places[file])}, line {line}: each line names an image that is there "
                    f"and its label, got {image!r} and {label!r}; correct the list or add the image"
                )
            found.setdefault(label, []).append(places[image])
        return dict(sorted(found.items()))
