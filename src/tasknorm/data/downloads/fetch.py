"""Fetch a data set from its official addresses into the data folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tasknorm.data.downloads.addresses import ADDRESSES, Address, quickdraw
from tasknorm.data.downloads.download import download
from tasknorm.errors import DataError


def fetch(name: str, root: Path, classes: Sequence[str] = ()) -> Path:
    """Download what is not there yet of data set `name` into the folder `root / name`, and return it.

    Raises:
        DataError: if nobody publishes it, or a download fails; what arrived is kept for the next attempt.
    """
    name = "omniglot" if name.startswith("omniglot_") else name
    folder = root / name
    for address in _addresses(name, classes):
        download(address.url, folder / address.file_name, md5=address.md5, size=address.size)
    return folder


def _addresses(name: str, classes: Sequence[str]) -> Sequence[Address]:
    if name == "quickdraw" and classes:
        return [quickdraw(class_name) for class_name in classes]
    if name == "quickdraw":
        raise DataError("quickdraw: no class was named, and all 345 have 37 GB; name those you want: --class cat")
    if classes:
        raise DataError(f"{name}: only quickdraw is downloaded by class, got {len(classes)} classes; leave them out")
    if name not in ADDRESSES:
        raise DataError(
            f"no download is known for {name!r}; known: {', '.join([*ADDRESSES, 'quickdraw'])} "
            "(`tasknorm data list` says how to get others)"
        )
    return ADDRESSES[name]
