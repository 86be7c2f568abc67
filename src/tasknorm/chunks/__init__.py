"""Nets that take their batches a chunk of examples at a time, exactly, in memory that hardly grows with the context."""

from tasknorm.chunks.chunked import chunked, fitted, unchunked
from tasknorm.chunks.parts import InParts, whole

__all__ = ["InParts", "chunked", "fitted", "unchunked", "whole"]
