"""Freed memory stays with the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import resource, sys, torch
if len(sys.argv) > 1:
    from tasknorm.machine.memory import keep_freed_memory
    keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(30_000_000)
before = faults()
for _ in range(10):
    torch.ones(30_000_000)
print(faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator is Linux's")
def test_a_freed_tensor_is_used_again_without_page_faults() -> None:
    def faults(*words: str) -> int:
        command = [sys.executable, "-c", CODE, *words]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert faults("keep") < faults() / 2
