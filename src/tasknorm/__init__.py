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
    from tasknorm.norms import NORMS, Activations, Norm
    from tasknorm.phase import PhaseError, context, contexts, joint, target
    from tasknorm.transduction import Audit, audit

__all__ = [
    "NORMS",
    "Activations",
    "Audit",
    "Episode",
    "Moments",
    "Norm",
    "PhaseError",
    "audit",
    "chunked",
    "context",
    "contexts",
    "convert",
    "joint",
    "target",
]

_HOMES = {
    "chunks": ("chunked",),
    "conversion": ("convert",),
    "episode": ("Episode",),
    "moments": ("Moments",),
    "norms": ("NORMS", "Activations", "Norm"),
    "phase": ("PhaseError", "context", "contexts", "joint", "target"),
    "transduction": ("Audit", "audit"),
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
