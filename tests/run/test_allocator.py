"""Tensors of the same size, step after step, cost no new pages of memory; faults are counted, nothing is timed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, resource, sys
import torch
from rwf.run.allocator import MMAP_THRESHOLD, keep_freed_memory

if sys.argv[1] == "kept":
    assert keep_freed_memory()
else:  # what glibc does as long as nothing large has been freed
    ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 128 * 1024)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        tensors = [torch.ones(1 << 20) for _ in range(40)]  # 4 MB each
        del tensors
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_what_was_freed_is_used_again() -> None:
    def faults(how: str) -> int:
        return int(subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, check=True).stdout)

    kept, returned = faults("kept"), faults("returned")
    assert kept < 200 < returned  # a page has 4 KB or more
