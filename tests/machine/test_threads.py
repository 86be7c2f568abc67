"""Threads that work ahead."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from itertools import count, islice

import pytest
import torch

from tasknorm.machine.threads import in_order


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_keeps_the_order_whichever_is_done_first(workers):
    def slow_at_first(i):
        time.sleep(0.02 if i % 3 == 0 else 0)
        return i * i

    assert list(in_order(slow_at_first, range(10), workers, ahead=4)) == [i * i for i in range(10)]


def test_works_ahead_but_not_too_far():
    begun = []
    results = in_order(lambda i: begun.append(i) or i, count(), workers=2, ahead=5)
    assert next(results) == 0
    time.sleep(0.1)
    assert len(begun) == 6
    results.close()


def test_an_error_comes_in_its_place():
    results = in_order(lambda i: 1 // (3 - i), range(10), workers=2, ahead=8)
    assert list(islice(results, 3)) == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_torchs_threads_are_left_to_the_reader():
    torch.set_num_threads(2)
    try:
        results = in_order(lambda i: torch.get_num_threads(), range(10), workers=2, ahead=2)
        later: list[int] = []
        assert next(results) == 1
        thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert (torch.get_num_threads(), later) == (2, [2])
        results.close()
    finally:
        torch.set_num_threads(1)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_process_that_never_asked_torch_keeps_all_its_cores(workers):
    """As in a user's shell: no thread variables, and nobody has asked torch for its number of threads yet."""
    code = (
        "import torch\n"
        "from tasknorm.machine.threads import in_order\n"
        f"results = in_order(lambda i: torch.ones(9).sum(), range(4), {workers}, ahead=2)\n"
        "next(results)\n"
        "print(torch.get_num_threads(), torch.__config__.parallel_info().split('at::get_num_threads() : ')[1][0])\n"
    )
    shell = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    found = subprocess.run([sys.executable, "-c", code], env=shell, capture_output=True, text=True, check=True)
    plain = subprocess.run([sys.executable, "-c", "import torch; print(torch.get_num_threads())"], env=shell,
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert found.stdout.split() == 2 * plain.stdout.split()


def test_no_thread_outlives_its_reader():
    before = threading.active_count()
    results = in_order(lambda i: i, count(), workers=3, ahead=5)
    next(results)
    assert threading.active_count() > before
    results.close()
    assert threading.active_count() == before
