"""Freed memory is kept for the next tensor, not handed back to the system: saves a quarter of training time on CPUs.

Or it is handed back at once, where memory is what is scarce.
"""

from __future__ import annotations

import ctypes
import sys

# The names of glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3


def keep_freed_memory() -> None:
    """Tell glibc's allocator to keep what is freed; elsewhere nothing happens. For processes that do nothing else."""
    _set_allocator({M_MMAP_THRESHOLD: 1 << 30, M_TRIM_THRESHOLD: (1 << 31) - 1, M_TOP_PAD: 1 << 26})


def return_freed_memory() -> None:
    """Tell glibc's allocator to hand back tensors of a megabyte or more when they are freed; elsewhere nothing happens.

    In chunks (see `tasknorm.chunked`) large values come and go between small ones that stay: what is freed then has
    gaps that nothing fits into, and a process would hold twice what it uses.
    """
    _set_allocator({M_MMAP_THRESHOLD: 1 << 20, M_TRIM_THRESHOLD: 1 << 20, M_TOP_PAD: 0})


def _set_allocator(options: dict[int, int]) -> None:
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in options.items():
            mallopt(option, value)
