"""Memory of batches, which is taken again once nobody holds the batch that was in it.

A batch of images takes some MB, an image about one. Memory that is given back to the system has to
be zeroed when it is taken anew, page by page: a fifth of all CPU time.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any

import numpy as np
import numpy.typing as npt

_ALIGNMENT = 64  # bytes; what begins elsewhere, TensorFlow and JAX copy
# Parameters of glibc's mallopt: what of free memory a process keeps, and from which size on it
# keeps nothing, the most that is accepted.
_KEPT_MEMORY = {-1: 256 << 20, -3: 32 << 20}
_MOST_KEPT = 4  # blocks that wait; those of batches ahead are in use

_kept: list[npt.NDArray[np.uint8]] = []  # append and remove are atomic


class _Lent:
    """Base of the arrays over a block, which is free again when the last of them is gone."""

    def __init__(self, memory: npt.NDArray[np.uint8]) -> None:
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        _kept.append(self._memory)
        del _kept[:-_MOST_KEPT]


def aligned_empty(shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    """An array that TensorFlow and JAX take without a copy; what is in it is not defined."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.asarray(_Lent(_taken(size + _ALIGNMENT)))
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)


def _taken(size: int) -> npt.NDArray[np.uint8]:
    """A block that nobody holds, or a new one."""
    for _ in range(len(_kept)):
        try:
            memory = _kept.pop()
        except IndexError:  # another thread took it
            break
        if len(memory) == size:
            return memory
    _keep_memory()
    return np.empty(size, np.uint8)


def _keep_memory() -> None:
    """Has glibc keep what images free, for the next ones.

    By itself it learns so only from larger blocks that are freed, and never where TensorFlow has
    made a data set.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        with contextlib.suppress(OSError, AttributeError):  # only glibc has it
            for parameter, size in _KEPT_MEMORY.items():
                ctypes.CDLL(None).mallopt(parameter, size)
