"""Where to compute."""

from __future__ import annotations

import os

import torch

from tasknorm.errors import SettingsError


def chosen_device(name: str) -> torch.device:
    """A device by its name; auto takes cuda, then mps, then the processor.

    Raises:
        SettingsError: if this machine has no such device.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device, found in there.items() if found))
    if not there[name]:
        raise SettingsError(
            f"this machine has no device {name!r}; choose from {', '.join(d for d in there if there[d])}, or auto"
        )
    return torch.device(name)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
