"""Normalization for few-shot and meta-learning: TaskNorm and every scheme it is compared with.

Names are imported when they are first used, so that `tasknorm --help` need not wait for torch.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasknorm.chunks import chunked
    from tasknorm.conversion import convert
    from tasknorm.episode import Episode
    from tasknorm.moments import Moments
    from tasknorm.norms import NORMS, Activations, Norm, split_state
    from tasknorm.phase import PhaseError, context, contexts, joint, target
    from tasknorm.runs import tune
    from tasknorm.transduction import Audit, ScorerAudit, audit, audit_scorer

__all__ = [
    "NORMS",
    "Activations",
    "Audit",
    "Episode",
    "Moments",
    "Norm",
    "PhaseError",
    "ScorerAudit",
    "audit",
    "audit_scorer",
    "chunked",
    "context",
    "contexts",
    "convert",
    "joint",
    "split_state",
    "target",
    "tune",
]

_HOMES = {
    "chunks": ("chunked",),
    "conversion": ("convert",),
    "episode": ("Episode",),
    "moments": ("Moments",),
    "norms": ("NORMS", "Activations", "Norm", "split_state"),
    "phase": ("PhaseError", "context", "contexts", "joint", "target"),
    "runs": ("tune",),
    "transduction": ("Audit", "ScorerAudit", "audit", "audit_scorer"),
}
_ROOMS = (
    "chunks",
    "compare",
    "data",
    "evaluation",
    "grid",
    "kernels",
    "learners",
    "nets",
    "norms",
    "play",
    "report",
    "runs",
    "serve",
    "settings",
    "training",
)

__version__ = version("tasknorm")


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"tasknorm.{home}"), name)
    if name in _ROOMS:
        return import_module(f"tasknorm.{name}")
    raise AttributeError(f"module 'tasknorm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_ROOMS])
