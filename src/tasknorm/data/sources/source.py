"""What every source is: classes by split, and a way to read image i of class c."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from tasknorm.data.formats.pixels import RESIZES, Pixels, Resize, ResizeName
from tasknorm.data.spec import SPLITS, Spec, Split
from tasknorm.errors import DataError, one_line

OF_PAPERS = (  # data sets whose protocols say how images are read; Tiny-ImageNet stands in for ILSVRC
    *("ilsvrc_2012", "omniglot", "aircraft", "cu_birds", "dtd", "quickdraw", "fungi", "vgg_flower", "traffic_sign"),
    *("mscoco", "mnist", "cifar10", "cifar100", "mini_imagenet", "tiny_imagenet"),
    *("omniglot_vinyals", "omniglot_alphabets"),
)


class Source(Protocol):
    """Images by class.

    Attributes:
        origin: the file or folder that it is read from.
        spec: classes, splits and how many images each class has.
        channels: 1 (grey) or 3 (red, green, blue).
        resize: how this source's protocol brings an image to another size.
    """

    @property
    def origin(self) -> str: ...

    @property
    def spec(self) -> Spec: ...

    @property
    def channels(self) -> int: ...

    @property
    def resize(self) -> Resize: ...

    def image(self, class_id: int, number: int) -> Pixels:
        """Image `number` of a class, uint8 `(height, width, channels)`."""
        ...

    def where(self, class_id: int, number: int) -> str:
        """The file that this image comes from, for messages."""
        ...

    def fingerprint(self) -> str:
        """Changes whenever the images may have changed."""
        ...


@runtime_checkable
class BulkSource(Source, Protocol):
    """A source that reads several images of a class faster than one by one."""

    def images(self, class_id: int, numbers: Sequence[int]) -> list[Pixels]:
        """As `image`, for each of `numbers`."""
        ...


def plain_spec(name: str, classes: Mapping[str, Mapping[str, int]]) -> Spec:
    """A spec from `{split: {class name: images}}`; class ids run through train, valid, test.

    >>> plain_spec("pets", {"train": {"cat": 30, "dog": 40}, "test": {"fox": 20}}).splits["test"].classes
    (2,)
    """
    names = [class_name for split in SPLITS for class_name in classes.get(split, {})]
    splits, start = {}, 0
    for split in SPLITS:
        images = tuple(classes.get(split, {}).values())
        splits[split] = Split(tuple(range(start, start + len(images))), images)
        start += len(images)
    return Spec(name, tuple(names), splits)


def bilevel_spec(name: str, alphabets: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Spec:
    """A spec from `{split: {alphabet: {class name: images}}}`; class ids run as in `plain_spec`."""
    flat = {
        split: {f"{alphabet}/{name}": images for alphabet, names in groups.items() for name, images in names.items()}
        for split, groups in alphabets.items()
    }
    plain = plain_spec(name, flat)
    splits = {split: _grouped(plain.splits[split], alphabets.get(split, {})) for split in SPLITS}
    return Spec(name, plain.class_names, splits)


def _grouped(split: Split, alphabets: Mapping[str, Mapping[str, int]]) -> Split:
    groups, start = [], 0
    for names in alphabets.values():
        groups.append(tuple(range(start, start + len(names))))
        start += len(names)
    return Split(split.classes, split.images, tuple(groups), "bilevel", tuple(alphabets))


def own_images(name: str) -> bool:
    """Whether a source of this name holds somebody's own images: no paper's protocol says how they are read.

    >>> own_images("my_photos"), own_images("cu_birds")
    (True, False)
    """
    return name not in OF_PAPERS


def shuffled(names: Sequence[str]) -> list[str]:
    """A fixed order of `names` that looks random and is the same on every machine: by their SHA-256."""
    return sorted(names, key=lambda name: hashlib.sha256(name.encode(errors="surrogateescape")).digest())


def chosen_resize(source: Source, name: ResizeName | None) -> Resize:
    """How images are brought to one size: by the rule of this name, or else by the source's own.

    Raises:
        DataError: if there is no such rule.
    """
    if name is not None and name not in RESIZES:
        raise DataError(f"resize must be one of {', '.join(RESIZES)}, got {name!r}; choose one, or leave it out")
    return source.resize if name is None else RESIZES[name]


def images_by_class(spec: Spec) -> list[int]:
    """How many images each class id has; 0 for a class that is in no split."""
    counts = [0] * len(spec.class_names)
    for split in spec.splits.values():
        for class_id, images in zip(split.classes, split.images, strict=True):
            counts[class_id] = images
    return counts


def pieces(spec: Spec, size: int) -> Iterator[tuple[int, range]]:
    """All images, some at a time: a class id and up to `size` image numbers."""
    for class_id, images in enumerate(images_by_class(spec)):
        for start in range(0, images, size):
            yield class_id, range(start, min(start + size, images))


def checked_image(source: Source, class_id: int, number: int) -> Pixels:
    """An image of a source, uint8 `(height, width, channels)`.

    Raises:
        TypeError: if the source gives anything else; says which image it is.
    """
    pixels = source.image(class_id, number)
    if pixels.ndim != 3 or pixels.shape[2] != source.channels or pixels.dtype != np.uint8:
        raise TypeError(
            f"{source.where(class_id, number)}: an image must be uint8 of shape (height, width, {source.channels}), "
            f"got {pixels.dtype} of shape {pixels.shape}; convert it in {type(source).__name__}.image"
        )
    return pixels


def chosen_split(spec: Spec, name: str) -> Split:
    """A split by its name.

    Raises:
        DataError: if there is none, or it is empty; lists those that are not.
    """
    filled = [split for split in SPLITS if split in spec.splits and spec.splits[split].classes]
    if name not in filled:
        raise DataError(
            f"{one_line(spec.name)}: there are no classes in the split {name!r}; choose one that has some "
            f"({', '.join(filled) or 'none has'})"
        )
    return spec.splits[name]
