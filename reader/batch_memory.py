"""Memory of batches, which is taken again once nobody holds the batch that was in it.

A batch of images takes some MB. Memory that is given back to the system has to be zeroed when it is
taken anew, page by page: with `stream.dataset` a twentieth of all CPU time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_ALIGNMENT = 64  # bytes; what begins elsewhere, TensorFlow and JAX copy
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
    return np.empty(size, np.uint8)
