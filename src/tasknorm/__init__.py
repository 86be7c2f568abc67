"""Normalization for few-shot and meta-learning: TaskNorm and every scheme it is compared with."""

from tasknorm.episode import Episode

__all__ = ["Episode"]
