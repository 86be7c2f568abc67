"""One run of a grid: its name, its settings, and the runs that it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasknorm.runs import AnySettings, Run, run_of


@dataclass(frozen=True)
class GridRun:
    """A training or a pretraining of a grid.

    Args:
        name: the name of its folder, in the grid's.
        settings: the run's settings.
        needs: names of the runs that must be finished before it.
    """

    name: str
    settings: AnySettings
    needs: tuple[str, ...] = ()

    def at(self, grid: Path) -> Run[Any]:
        """The run in its folder, below that of the grid."""
        return run_of(self.settings, grid / self.name)

    def part(self, share: float) -> GridRun:
        """The same run with a share of its length."""
        return replace(self, settings=self.at(Path()).part(share))
