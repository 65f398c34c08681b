"""Evicts files from the page cache, loads them into it, and measures how much of them is there.

Lower layers (the cache of a disk, the memory of a virtual machine's host) are out of reach.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

_BLOCK_BYTES = 4 << 20
_EVERYTHING = Path("/proc/sys/vm/drop_caches")


def drop(files: Iterable[Path]) -> None:
    """Evicts files from memory: only these, so that programs need not be loaded again.

    Raises:
        SystemExit: A hundredth or more of them is still in memory.
    """
    paths = list(files)
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())  # pages that were not written yet would stay
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if resident_share(paths) >= 0.01 and os.access(_EVERYTHING, os.W_OK):
        _EVERYTHING.write_text("3")
    if (share := resident_share(paths)) >= 0.01:
        raise SystemExit(f"{share:.0%} of the files stayed in memory, so no run would be cold")


def fill(files: Iterable[Path]) -> None:
    """Reads files, so that they are in memory."""
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.read(_BLOCK_BYTES):
                pass


def resident_share(files: Iterable[Path]) -> float:
    """The share of the pages of these files that is in memory, by mincore(2)."""
    there, pages = 0, 0
    for path in files:
        size = path.stat().st_size
        if not size:
            continue
        count = -(-size // mmap.PAGESIZE)
        states = (ctypes.c_ubyte * count)()
        # ACCESS_COPY: ctypes takes the address of a writable buffer only; nothing is written.
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped,
        ):
            start = ctypes.c_char.from_buffer(mapped)
            library = ctypes.CDLL(None, use_errno=True)
            failed = library.mincore(
                ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), states
            )
            del start  # or the map could not be closed
            if failed:
                raise OSError(ctypes.get_errno(), "mincore failed", str(path))
        there += sum(state & 1 for state in states)
        pages += count
    return there / pages if pages else 0.0
