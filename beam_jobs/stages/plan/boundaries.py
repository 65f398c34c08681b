"""Shard boundaries: exact quantiles of the shuffle keys of a split, in bounded memory.

The first pass over the keys counts them by their leading bits; the second collects the keys of
those bins that have a boundary. So shards differ by at most one record at any size, and never are
all keys in memory at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shard_format.keys import UInt64Array

# The keys of a bin with a boundary are in memory, and so is the count of every bin: up to 2**24
# bins, 128 MiB per split, from 2 billion records on.
_KEYS_OF_BIN = 256
_LEAST_BITS, _MOST_BITS = 16, 24


def histogram_bits(records: int) -> int:
    """Leading bits to count by, for a corpus of this many records."""
    return min(_MOST_BITS, max(_LEAST_BITS, (records // _KEYS_OF_BIN).bit_length()))


class Quantiles:
    """Finds the first key of each shard of one split.

    Call `count` with all keys, then `choose`, then `collect` with all keys again, then `keys`.

    Args:
        bits: Leading bits of the key to count by.
    """

    def __init__(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        self.histogram: npt.NDArray[np.int64] = np.zeros(1 << bits, np.int64)
        self._ranks = self._bins = np.zeros(0, np.int64)
        self._wanted = np.zeros(0, bool)
        self._collected: list[UInt64Array] = []

    @property
    def records(self) -> int:
        """Keys counted so far."""
        return int(self.histogram.sum())

    def count(self, keys: UInt64Array) -> None:
        """First pass."""
        bins = (keys >> self._shift).astype(np.int64)
        np.add.at(self.histogram, bins, 1)

    def choose(self, num_shards: int) -> None:
        """Sets the number of shards n; shard i begins at rank floor(i * records / n)."""
        self._ranks = np.arange(1, num_shards, dtype=np.int64) * self.records // num_shards
        self._bins = np.searchsorted(np.cumsum(self.histogram), self._ranks, side="right")
        self._wanted = np.zeros(len(self.histogram), bool)
        self._wanted[self._bins] = True

    def collect(self, keys: UInt64Array) -> None:
        """Second pass."""
        self._collected.append(keys[self._wanted[(keys >> self._shift).astype(np.int64)]])

    def keys(self) -> UInt64Array:
        """[num_shards - 1] uint64: the first key of every shard but the first, ascending.

        Two records with the same 64-bit key go to the same shard; with 16 million records that
        happens once in 131,000 builds, and matters only at a boundary.
        """
        if not len(self._ranks):
            return np.zeros(0, np.uint64)
        collected = np.sort(np.concatenate(self._collected))
        # Rank among the collected keys: the keys of the bins that were not collected are skipped.
        skipped = np.cumsum(np.where(self._wanted, 0, self.histogram))
        return collected[self._ranks - skipped[self._bins]]
