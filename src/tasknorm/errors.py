"""What can go wrong in a command and has a message of its own; the command line turns each into an exit code."""

from __future__ import annotations


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
