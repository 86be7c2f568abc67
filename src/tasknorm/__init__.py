"""Normalization for few-shot and meta-learning: TaskNorm and every scheme it is compared with."""

from tasknorm.conversion import convert
from tasknorm.episode import Episode
from tasknorm.norms import NORMS, Norm
from tasknorm.phase import PhaseError, context, contexts, joint, target
from tasknorm.transduction import Audit, audit

__all__ = [
    "NORMS",
    "Audit",
    "Episode",
    "Norm",
    "PhaseError",
    "audit",
    "context",
    "contexts",
    "convert",
    "joint",
    "target",
]
