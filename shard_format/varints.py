"""Packed varints, many at a time, for millions of token ids.

Wire format: protobuf.dev/programming-guides/encoding. A number is written in groups of 7 bits, the
lowest first; all bytes but the last have their highest bit set. Negative numbers are 64 bits of
two's complement, so ten bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MORE = 0x80
_MAX_BYTES = 10  # of 64 bits in groups of 7


def pack_varints(numbers: npt.NDArray[np.int64]) -> bytes:
    """The concatenated varints of [n] int64 numbers."""
    if not len(numbers):
        return b""
    left = numbers.view(np.uint64)
    if int(left.max()) < _MORE:
        return left.astype(np.uint8).tobytes()
    groups, written = [], []
    here = np.ones(len(left), bool)
    while here.any():
        group = (left & np.uint64(0x7F)).astype(np.uint8)
        left = left >> np.uint64(7)
        more = left != 0
        groups.append(np.where(more, group | _MORE, group))
        written.append(here)
        here = more
    return np.stack(groups, axis=1)[np.stack(written, axis=1)].tobytes()


def unpack_varints(packed: bytes | npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """The inverse of `pack_varints`; bits beyond 64 are dropped, as protobuf does.

    Raises:
        ValueError: The last number is cut, or one is longer than 64 bits.
    """
    groups = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(groups < _MORE)
    if len(ends) == len(groups):
        return groups.astype(np.int64)
    if not len(ends) or ends[-1] != len(groups) - 1:
        raise ValueError("the last number is cut off")
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if int(lengths.max()) > _MAX_BYTES:
        raise ValueError("a number is longer than 64 bits")
    place = np.arange(len(groups)) - np.repeat(starts, lengths)
    bits = (groups & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    numbers: npt.NDArray[np.uint64] = np.bitwise_or.reduceat(bits, starts)
    return numbers.view(np.int64)
