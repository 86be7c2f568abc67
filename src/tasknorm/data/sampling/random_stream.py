"""Random numbers that are the same everywhere: a stream for each seed and episode.

numpy guarantees the raw output of a bit generator, but not what `np.random.Generator` makes of it. So the
bits are those of Philox (Salmon et al., 2011), whose key is (seed, index), and everything else is done here
with operations that IEEE 754 defines to the last bit. No stream depends on what was drawn before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

_WORD = 1 << 64


class Stream:
    """The random numbers of one episode.

    Args:
        seed: the run's seed.
        index: the episode's number.
        purpose: streams with different purposes are independent.

    Raises:
        ValueError: if a number is negative or needs more than 64 bits.

    >>> Stream(0, 7).integer(100) == Stream(0, 7).integer(100)
    True
    """

    def __init__(self, seed: int, index: int, purpose: int = 0) -> None:
        for name, value in (("seed", seed), ("index", index), ("purpose", purpose)):
            if not 0 <= value < _WORD:
                raise ValueError(f"{name} must be a whole number from 0 to 2**64 - 1, got {value}; choose another")
        key = int(index) << 64 | int(seed)
        self._bits = np.random.Philox(key=key, counter=int(purpose) << 192)

    def uniforms(self, count: int) -> Floats:
        """`(count,)` numbers from [0, 1), multiples of 2**-53."""
        return (self._bits.random_raw(count) >> np.uint64(11)) * np.float64(2.0**-53)

    def integer(self, stop: int) -> int:
        """A whole number from 0 to stop - 1. (Uneven by at most stop * 2**-53.)"""
        return int(float(self.uniforms(1)[0]) * stop)

    def integers(self, stop: int, count: int) -> Integers:
        """`(count,)` whole numbers from 0 to stop - 1."""
        return (self.uniforms(count) * stop).astype(np.int64)

    def subset(self, size: int, count: int) -> Integers:
        """`(count,)` different numbers below size, in random order."""
        return self.subsets([size], [count])

    def subsets(self, sizes: Sequence[int], counts: Sequence[int]) -> Integers:
        """For each i, counts[i] different numbers below sizes[i], in random order; laid end to end."""
        uniforms = iter(self.uniforms(sum(counts)).tolist())
        chosen: list[int] = []
        for size, count in zip(sizes, counts, strict=True):
            chosen += _shuffled(size, islice(uniforms, count))
        return np.array(chosen, np.int64)


def _shuffled(size: int, uniforms: Iterable[float]) -> list[int]:
    """The start of a Fisher-Yates shuffle of range(size); only the positions that a swap touched are kept."""
    moved: dict[int, int] = {}
    chosen = []
    for i, uniform in enumerate(uniforms):
        j = i + int(uniform * (size - i))
        chosen.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    return chosen


def exp(x: Floats) -> Floats:
    """e**x to about 1e-14, the same bits everywhere, unlike `np.exp`: Taylor series of x / 16, then squared.

    >>> bool(np.allclose(exp(np.array([-0.7, 0.0, 0.7])), np.exp([-0.7, 0.0, 0.7]), rtol=1e-13))
    True
    """
    x = x / 16
    result = np.ones_like(x)
    for order in range(9, 0, -1):
        result = 1 + result * x / order
    for _ in range(4):
        result = result * result
    return result
