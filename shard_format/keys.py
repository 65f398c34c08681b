"""Record identity as 64-bit numbers: the shuffle key and the split position of a record.

A record id is text (the path relative to its source, plus member or row). It is hashed once, by
`id_hash`; everything else is a bijection of that number, computed on whole columns.

The mixing function is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable
Pseudorandom Number Generators, OOPSLA 2014, figure 17, constants of variant 13 by Stafford).
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

UInt64Array = npt.NDArray[np.uint64]

_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_SPLIT_STREAM = np.uint64(0x53504C4954)  # "SPLIT"


def id_hash(record_id: str) -> int:
    """64 bits of BLAKE2b over the record id (UTF-8), as an unsigned integer."""
    return int.from_bytes(hashlib.blake2b(record_id.encode(), digest_size=8).digest(), "big")


def mix(values: Any) -> UInt64Array:
    """The SplitMix64 finalizer on uint64 values: a bijection in which every bit avalanches."""
    z = np.asarray(values, np.uint64) + _GOLDEN_GAMMA
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def shuffle_keys(id_hashes: Any, seed: int) -> UInt64Array:
    """The shuffle key of every record: sorting by it is the global shuffle.

    Args:
        id_hashes: [n] uint64.
        seed: Any integer in [0, 2**63).
    """
    # atleast_1d: numpy warns of overflow on scalars, where wrapping around is what we mean.
    return mix(np.asarray(id_hashes, np.uint64) ^ mix(np.atleast_1d(np.uint64(seed))))


def split_positions(id_hashes: Any) -> npt.NDArray[np.float64]:
    """The position of each record in [0, 1), by which a corpus is cut into splits.

    It does not depend on the seed: another shuffle never moves a record to another split.

    Args:
        id_hashes: [n] uint64.
    """
    mixed = mix(np.atleast_1d(np.asarray(id_hashes, np.uint64)) ^ _SPLIT_STREAM)
    return (mixed >> np.uint64(11)).astype(np.float64) / float(1 << 53)
