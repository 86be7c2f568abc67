"""Durations as people say them."""

from __future__ import annotations


def in_hours(seconds: float) -> str:
    """A duration as people say it.

    >>> in_hours(7500), in_hours(61), in_hours(5)
    ('2 h 5 min', '1 min', '5 s')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
