"""What sources share whose images are files, one each, below a folder or inside an archive."""

from __future__ import annotations

from tasknorm.data.formats.pixels import Pixels, decoded
from tasknorm.data.formats.tree import Tree


class ImageFiles:
    """Reading image i of class c as a file of a tree.

    Attributes:
        tree: of the files.
        channels: 1 (grey) or 3 (red, green, blue).
        upright: whether photos are turned as their EXIF orientation says.
    """

    tree: Tree
    channels: int
    upright: bool = False
    _files: list[list[str]]  # by class

    def image(self, class_id: int, number: int) -> Pixels:
        name = self._files[class_id][number]
        return decoded(self.tree.read(name), self.channels, self.tree.where(name), upright=self.upright)

    def where(self, class_id: int, number: int) -> str:
        return self.tree.where(self._files[class_id][number])

    def fingerprint(self) -> str:
        return self.tree.fingerprint()
