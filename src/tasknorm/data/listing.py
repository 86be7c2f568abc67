"""What is here, what is missing, and how to get it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasknorm.data.sources.named import SOURCES, found, opened, present
from tasknorm.data.spec import SPLITS
from tasknorm.errors import DataError, at

META_DATASET = "convert with Meta-Dataset's scripts, then `tasknorm data import FOLDER --as NAME`"
HOW = {
    "omniglot": "`tasknorm data download omniglot` (omniglot_vinyals and omniglot_alphabets come with it)",
    "mini_imagenet": "images and Ravi's CSV files, then `tasknorm data import PATH --as mini_imagenet`",
    "mnist": "`tasknorm data download mnist`",
    "cifar10": "`tasknorm data download cifar10`",
    "cifar100": "`tasknorm data download cifar100`",
    "quickdraw": "`tasknorm data download quickdraw --class cat --class dog ...`",
    "your own": "`tasknorm data import PATH --as NAME`, with PATH a tree of <class>/<image>",
    "records": META_DATASET,
}


@dataclass(frozen=True)
class Listed:
    """One line: a name, what is there (classes and images by split) or why not, and where."""

    name: str
    state: str
    detail: str


def listed(root: Path) -> list[Listed]:
    """Every data set that is in the data folder, then those that are not."""
    here = [_present(name, root) for name in ["glyphs", *present(root)]]
    missing = [
        Listed(name, "missing", how)
        for name, how in HOW.items()
        if name not in SOURCES or name == "records" or not found(name, root)
    ]
    return here + missing


def _present(name: str, root: Path) -> Listed:
    try:
        spec = opened(name, root).spec
    except DataError as error:
        return Listed(name, "broken", str(error))
    splits = [spec.splits[split] for split in SPLITS]
    classes, images = [len(split.classes) for split in splits], sum(sum(split.images) for split in splits)
    where = "drawn on this machine" if name == "glyphs" else at(found(name, root))
    return Listed(name, "here", f"{'/'.join(map(str, classes))} classes, {images} images; {where}")
