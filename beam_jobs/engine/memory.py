"""What a step leaves in the allocators of a process."""

from __future__ import annotations

import contextlib
import ctypes

import pyarrow as pa


def release_memory() -> None:
    """Gives the system what is free inside of allocators: else each step adds to the last one."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
