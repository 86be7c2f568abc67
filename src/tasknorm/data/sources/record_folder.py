"""Meta-Dataset's own form: a folder of TFRecord files, one per class, and a `dataset_spec.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tasknorm.data.formats.dataset_spec import FILE_NAME, FILE_PATTERN, read_spec
from tasknorm.data.formats.pixels import Pixels, antialiased, bilinear, decoded
from tasknorm.data.formats.tfrecords import RecordFile
from tasknorm.data.formats.tree import stamp
from tasknorm.data.sources.source import images_by_class, own_images
from tasknorm.errors import DataError, at


class RecordFolder:
    """Images in records, resized as Meta-Dataset does; own photos, told by the spec's name, as in `Folder`.

    Args:
        path: the folder.

    Raises:
        DataError: if a class's file is missing; on reading, if it holds fewer records than the spec says.
    """

    channels = 3

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.origin = str(self.path.resolve())
        self.spec = read_spec(self.path)
        self._upright = own_images(self.spec.name)
        self.resize = antialiased if self._upright else bilinear
        self._counts = images_by_class(self.spec)
        self._files = [RecordFile(self.path / FILE_PATTERN.format(i)) for i in range(len(self._counts))]
        missing = [file.path for file, count in zip(self._files, self._counts, strict=True) if count]
        missing = [path for path in missing if not path.is_file()]
        if missing:
            raise DataError(
                f"{at(missing[0])}: the file of a class in {FILE_NAME} is missing ({len(missing)} in all); copy it, or "
                "convert the data set again"
            )

    def image(self, class_id: int, number: int) -> Pixels:
        return self.images(class_id, [number])[0]

    def images(self, class_id: int, numbers: Sequence[int]) -> list[Pixels]:
        examples = list(self._checked(class_id).examples(numbers))
        for number, (_, label) in zip(numbers, examples, strict=True):
            if label != class_id:
                raise DataError(
                    f"{self.where(class_id, number)}: the label must be the class id {class_id}, got {label}; the spec "
                    "contradicts the file, convert the data set again"
                )
        places = (self.where(class_id, number) for number in numbers)
        return [
            decoded(data, self.channels, where, upright=self._upright)
            for (data, _), where in zip(examples, places, strict=True)
        ]

    def where(self, class_id: int, number: int) -> str:
        return at(self._files[class_id].path, f"record {number}")

    def fingerprint(self) -> str:
        paths = [self.path / FILE_NAME, *(file.path for file in self._files if file.path.is_file())]
        return hashlib.sha256(" ".join(stamp(path) for path in paths).encode()).hexdigest()

    def _checked(self, class_id: int) -> RecordFile:
        """A class's file, which holds as many records as the spec says; read once."""
        file = self._files[class_id]
        if len(file) != self._counts[class_id]:
            raise DataError(
                f"{at(file.path)}: the file holds {len(file)} images, and {FILE_NAME} says {self._counts[class_id]}; "
                "copy the file again, or convert the data set again"
            )
        return file
