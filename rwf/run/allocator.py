"""Memory that a step has freed stays with the process: glibc would return it, and get zeroed pages each time."""

from __future__ import annotations

import ctypes
import platform

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # of glibc's malloc.h
MIB = 1 << 20


def keep_freed_memory() -> bool:
    """Whether the C library took it. A run asks for the same tensors step after step; what it holds is their peak."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    wanted = ((MMAP_THRESHOLD, 32 * MIB), (TRIM_THRESHOLD, 2048 * MIB - 1), (TOP_PAD, 64 * MIB))
    return sum(mallopt(parameter, value) for parameter, value in wanted) == len(wanted)
