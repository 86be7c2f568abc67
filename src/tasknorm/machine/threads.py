"""Work done ahead by threads, handed out in order; a run's setting `workers` says by how many.

Threads, since decoding and gathering images release the interpreter's lock; and they end with their process,
however it ends. Torch's own threads are left to the reader: were each of these to start some, they would wait for each
other more than they work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Barrier
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int, ahead: int) -> Iterator[Result]:
    """`map(function, items)`, with `workers` threads at most `ahead` items in front of the reader.

    The results and their order do not depend on the number of threads; 0 does the work in the reader's own.

    >>> list(in_order(abs, [-1, -2, -3], workers=2, ahead=2))
    [1, 2, 3]
    """
    if workers == 0:
        yield from map(function, items)
        return
    pool = single_threaded_pool(workers)
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def single_threaded_pool(workers: int) -> ThreadPoolExecutor:
    """Threads in each of which torch computes on one core; the reader keeps the number of cores that it has."""
    # A thread copies torch's default when it first asks, and the pool's threads are about to change that default.
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="tasknorm", initializer=_compute_alone)
    all_begun = Barrier(workers)
    wait([pool.submit(all_begun.wait) for _ in range(workers)])
    torch.set_num_threads(threads)  # for the reader, and as the default of threads that begin later
    return pool


def _compute_alone() -> None:
    torch.get_num_threads()  # ask now: asked for the first time later, it would copy the default over the 1
    torch.set_num_threads(1)
