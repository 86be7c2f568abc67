"""Errors of the command: one clear message on standard error, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tasknorm.errors import (
    DataError,
    DivergedError,
    FailedRunsError,
    LostProcessError,
    SettingsError,
    StoppedError,
    WeightsError,
)

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def errors() -> Iterator[None]:
    """In place of a traceback: 2 for what the caller can put right, 1 for failures, 128 + n after signal n."""
    try:
        yield
    except BrokenPipeError:  # whoever reads what we print has read enough
        raise typer.Exit(1) from None
    except (DataError, SettingsError, WeightsError, ModuleNotFoundError, OSError) as error:
        _leave(_in_words(error), 2)
    except (DivergedError, LostProcessError, FailedRunsError) as error:
        _leave(error, 1)
    except StoppedError as error:
        _leave(error, 128 + error.received)


def _in_words(error: Exception) -> str:
    """The message; where the system has no room for a file, the file first and then what to do."""
    if not isinstance(error, OSError) or error.errno not in FULL or error.filename is None:
        return str(error)
    return f"{error.filename}: {error.strerror}; free some space there, then give the same command again"


def _leave(error: Exception | str, code: int) -> None:
    print(f"tasknorm: {error}", file=sys.stderr)
    raise typer.Exit(code) from None


def speaks() -> bool:
    """Whether this is the first of the processes that `torchrun` started, or the only one."""
    return os.environ.get("RANK", "0") == "0"
