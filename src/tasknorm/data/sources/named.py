"""Every source by its name, and opening one: by name, by path, or as it is."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from tasknorm.data.formats.dataset_spec import FILE_NAME
from tasknorm.data.places import data_folder, place_of
from tasknorm.data.sources.cifar import cifar10, cifar100
from tasknorm.data.sources.folder import Folder, read_splits, split_names
from tasknorm.data.sources.glyphs import Glyphs
from tasknorm.data.sources.mini_imagenet import MiniImagenet
from tasknorm.data.sources.mnist import FILES as MNIST_FILES
from tasknorm.data.sources.mnist import Mnist
from tasknorm.data.sources.omniglot import Omniglot, alphabets, vinyals
from tasknorm.data.sources.quickdraw import QuickDraw
from tasknorm.data.sources.record_folder import RecordFolder
from tasknorm.data.sources.source import Source
from tasknorm.errors import DataError, at

SOURCES: dict[str, Callable[..., Source]] = {
    "glyphs": Glyphs,
    "omniglot": Omniglot,
    "omniglot_vinyals": partial(Omniglot, splits=vinyals),
    "omniglot_alphabets": partial(Omniglot, splits=alphabets),
    "mini_imagenet": MiniImagenet,
    "mnist": Mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "quickdraw": QuickDraw,
    "folder": Folder,
    "records": RecordFolder,
}
SPLITS_FILE = "splits.json"
PATH = "folder:"


def opened(source: str | Path | Source, root: Path | None = None) -> Source:
    """A source by its name in `SOURCES` or in the data folder, or by the path of a folder or archive.

    `folder:PATH` is the path, also if a data set has its name.

    Raises:
        DataError: if there is no such source; lists the choices.

    >>> opened("glyphs").spec.name
    'glyphs'
    """
    if not isinstance(source, (str, Path)):
        return source
    if source == "glyphs":
        return Glyphs()
    root = root or data_folder()
    if isinstance(source, str) and source.startswith(PATH):
        source = Path(source.removeprefix(PATH))
        if not source.exists():
            raise DataError(f"{at(source)}: there is no folder or archive of this name; correct the path")
    if isinstance(source, str) and (path := found(source, root)):
        return open_at(path, source, root)
    if Path(source).exists():
        return open_at(Path(source), Path(source).stem, Path(source).parent)
    near = get_close_matches(str(source), ["glyphs", *present(root)], 1) or get_close_matches(str(source), SOURCES, 1)
    hint = f"did you mean {near[0]!r}? Otherwise" if near else "correct it, or"
    raise DataError(
        f"{at(source)}: there is no data set or path of this name; known: glyphs, and in {at(root)} "
        f"{at(', '.join(present(root))) or 'nothing'}; {hint} see `tasknorm data list` for how to get it"
    )


def found(name: str, root: Path) -> Path | None:
    """Where the data set of this name is in the data folder; None if it is not there."""
    if name == "mnist" and any((root / f"{MNIST_FILES[0]}{suffix}").exists() for suffix in ("", ".gz")):
        return root
    return place_of("omniglot" if name.startswith("omniglot_") else name, root)


def open_at(path: Path, name: str, root: Path) -> Source:
    """The source at `path`; its name says what it is, or else its contents."""
    if (path / FILE_NAME).is_file():
        return RecordFolder(path)
    splits = splits_for(name, root)
    if name == "quickdraw":
        return QuickDraw(path, splits)
    if name in SOURCES and name not in ("glyphs", "folder", "records"):
        return SOURCES[name](path)
    return Folder(path, splits, name)


def splits_for(name: str, root: Path) -> Path | None:
    """The splits file of a data set: `name.splits.json`, or `splits.json` if it speaks of this one."""
    if (own := root / f"{name}.{SPLITS_FILE}").is_file():
        return own
    shared = root / SPLITS_FILE
    return shared if shared.is_file() and read_splits(shared, name) is not None else None


def present(root: Path) -> list[str]:
    """Names of the data sets in the data folder: known ones, those in its splits file, and any others."""
    names = [name for name in SOURCES if name not in ("folder", "records")]
    if (root / SPLITS_FILE).is_file():
        names += [name for name in split_names(root / SPLITS_FILE) if name not in names]
    places = {name: place for name in names if (place := found(name, root))}
    paths = sorted(root.iterdir()) if root.is_dir() else []
    return [*places, *(p.stem for p in paths if p not in places.values() and _may_be_source(p))]


def _may_be_source(path: Path) -> bool:
    if path.name.startswith("."):
        return False
    return path.suffix == ".zip" or (path.is_dir() and any(p.is_dir() or p.name == FILE_NAME for p in path.iterdir()))
