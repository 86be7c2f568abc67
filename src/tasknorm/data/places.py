"""Where data sets and caches lie on this machine, and how a data set is found by its name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tasknorm.errors import DataError, at, one_line


def data_folder() -> Path:
    """Where data sets are: `TASKNORM_DATA`, or the platform's usual place for a user's data."""
    if chosen := os.environ.get("TASKNORM_DATA"):
        return Path(chosen)
    if sys.platform == "win32":
        return _local() / "tasknorm" / "data"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "tasknorm"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "tasknorm"


def cache_folder() -> Path:
    """Where caches are: `TASKNORM_CACHE`, or the platform's usual place for a user's caches."""
    if chosen := os.environ.get("TASKNORM_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return _local() / "tasknorm" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tasknorm"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tasknorm"


def place_of(name: str, root: Path) -> Path | None:
    """The folder or archive of a data set: `name`, `name.zip`, `name.tar.gz` or one `name_*.zip`, if any.

    Raises:
        DataError: if several could be meant.
    """
    for path in (root / name, root / f"{name}.zip", root / f"{name}.tar.gz"):
        if os.path.exists(path):  # a name too long for a file is not there, for `Path.exists` an error
            return path
    found = sorted(root.glob(f"{name}_*.zip"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DataError(
            f"{at(root)}: several archives could be {name}: {one_line(names)}; rename the one you mean to {name}.zip"
        )
    return found[0] if found else None


def _local() -> Path:
    return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
