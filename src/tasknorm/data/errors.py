"""The one error of the data layer."""

from __future__ import annotations


class DataError(ValueError):
    """Input that cannot be used: the message names the file, the rule, the value found and the fix."""
