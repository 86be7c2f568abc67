"""What can go wrong in a command and has a message of its own; the command line turns each into an exit code."""

from __future__ import annotations

SHORT = 80
LONG = 300


def at(file: object, place: str = "") -> str:
    """How messages call a file and a place in it, on one line: what does not print is escaped.

    Errors about files read `{at(file, place)}: the rule, what was received; what to do`.

    >>> at("photos/cat\\n.csv", "line 3")
    'photos/cat\\\\n.csv, line 3'
    """
    return _printable(f"{file}, {place}" if place else str(file))


def one_line(text: str) -> str:
    """A text from elsewhere on one line, cut where it is longer than a message should be."""
    text = _printable(text)
    return text if len(text) <= LONG else text[: LONG - 3] + "..."


def reason(error: Exception) -> str:
    """What an error of somebody else says, on one line; its type if it says nothing."""
    text = (isinstance(error, OSError) and error.strerror) or str(error)
    return one_line(" ".join(text.split())) or type(error).__name__


def short(value: object) -> str:
    """The `repr` of a value from a file, cut where a reader would stop reading.

    >>> short("x" * 1000)[-6:], short(7)
    ('xxx...', '7')
    """
    try:
        text = _printable(repr(value))
    except RecursionError:  # nested nearly too deeply to be read
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHORT else text[: SHORT - 3] + "..."


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


class DataError(ValueError):
    """A file, a data set or what was asked of it is wrong; the message names it, and says what to do."""


class SettingsError(ValueError):
    """A setting is unknown, has a wrong value, or contradicts another."""


class WeightsError(ValueError):
    """A file of weights is damaged, or belongs to another learner, norm or version."""


class DivergedError(ArithmeticError):
    """A loss or a gradient is not a finite number."""


class LostProcessError(RuntimeError):
    """Another process of this training has ended."""


class FailedRunsError(RuntimeError):
    """Some runs of a grid failed."""


class StoppedError(RuntimeError):
    """A run was asked to stop by a signal, and did, with a checkpoint.

    Args:
        message: what was stopped, and how to go on.
        received: the number of the signal.
    """

    def __init__(self, message: str, received: int) -> None:
        super().__init__(message)
        self.received = received
