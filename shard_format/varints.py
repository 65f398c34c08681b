"""Packed varints, many at a time, for millions of token ids.

Wire format: protobuf.dev/programming-guides/encoding. A number is written in groups of 7 bits, the
lowest first; all bytes but the last have their highest bit set. Negative numbers are 64 bits of
two's complement, so ten bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_MORE = 0x80
_MAX_BYTES = 10  # of 64 bits in groups of 7
_BYTES_OF_INT32 = 4  # that never have a sign


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


def last_bytes(packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """[n] the place of the last byte of each varint."""
    return np.flatnonzero(packed < _MORE)


def unpack_varints(
    packed: bytes | npt.NDArray[np.uint8], ends: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """The inverse of `pack_varints`; bits beyond 64 are dropped, as protobuf does.

    Args:
        packed: The varints.
        ends: Their `last_bytes`, if the caller has them.

    Raises:
        ValueError: The last number is cut, or one is longer than 64 bits.
    """
    groups = np.frombuffer(packed, np.uint8)
    ends = last_bytes(groups) if ends is None else ends
    if len(ends) == len(groups):
        return groups.astype(np.int64)
    if not len(ends) or ends[-1] != len(groups) - 1:
        raise ValueError("the last number is cut off")
    lengths = np.diff(ends, prepend=-1)
    longest = int(lengths.max())
    if longest > _MAX_BYTES:
        raise ValueError("a number is longer than 64 bits")
    # From the highest group down, in passes over the numbers, which are fewer than their bytes, and
    # in 32 bits where these suffice.
    bits = groups & 0x7F
    kind = np.int32 if longest <= _BYTES_OF_INT32 else np.int64
    numbers: npt.NDArray[Any] = bits.take(ends).astype(kind)
    for place in range(1, longest):
        has_more = lengths > place
        numbers <<= (7 * has_more).astype(kind)
        numbers |= bits.take(ends - place, mode="clip") * has_more
    return numbers.astype(np.int64, copy=False)
