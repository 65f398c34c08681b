"""Keys of chosen ranks, exactly and in bounded memory: of splits, of classes.

A first pass over the keys counts them by their leading bits; a second collects the keys of those
bins that have a wanted rank. Never are all keys in memory at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray
from shard_format.keys import UInt64Array

# The keys of a bin with a wanted rank are in memory, and so is the count of every bin: up to 2**24
# bins, 128 MiB, from 2 billion records on.
_KEYS_OF_BIN = 256
_LEAST_BITS, _MOST_BITS = 16, 24


def histogram_bits(records: int) -> int:
    """Leading bits to count by, for so many records in one group."""
    return min(_MOST_BITS, max(_LEAST_BITS, (records // _KEYS_OF_BIN).bit_length()))


class Quantiles:
    """Finds the keys of some ranks in each of some groups.

    Call `count` with all keys, then `choose`, then `collect` with all keys again, then `keys`.

    Args:
        bits: Leading bits of the key to count by.
        groups: How many groups there are.

    Attributes:
        histogram: [groups, 2**bits] int64, number of keys in each bin.
    """

    def __init__(self, bits: int, groups: int = 1) -> None:
        self._bits = bits
        self.histogram: npt.NDArray[np.int64] = np.zeros((groups, 1 << bits), np.int64)
        self._ranks: Sequence[IntArray] = ()
        self._bins: Sequence[IntArray] = ()  # of the ranks
        self._wanted = np.zeros(0, bool)
        self._collected: list[tuple[IntArray, UInt64Array]] = []

    @property
    def counts(self) -> IntArray:
        """[groups] int64, number of keys of each."""
        return self.histogram.sum(axis=1)

    def count(self, keys: UInt64Array, groups: IntArray | int = 0) -> None:
        """First pass: [n] keys, and the group of each or of all."""
        np.add.at(self.histogram.reshape(-1), self._places(keys, groups), 1)

    def choose(self, ranks: Sequence[IntArray]) -> None:
        """Sets the ranks to find in each group, each below the number of its keys."""
        self._ranks = ranks
        ends = np.cumsum(self.histogram, axis=1)
        self._bins = [np.searchsorted(*of, side="right") for of in zip(ends, ranks, strict=True)]
        self._wanted = np.zeros(self.histogram.shape, bool)
        for group, bins in enumerate(self._bins):
            self._wanted[group, bins] = True

    def collect(self, keys: UInt64Array, groups: IntArray | int = 0) -> None:
        """Second pass."""
        places = self._places(keys, groups)
        inside = self._wanted.reshape(-1)[places]
        self._collected.append((places[inside] >> self._bits, keys[inside]))

    def keys(self) -> list[UInt64Array]:
        """By group: the key of each rank, of keys in ascending order."""
        nothing = (np.zeros(0, np.int64), np.zeros(0, np.uint64))
        groups, keys = map(np.concatenate, zip(nothing, *self._collected, strict=True))
        order = np.lexsort((keys, groups))
        begins = np.searchsorted(groups[order], np.arange(len(self._ranks)))
        # Rank among the collected keys: those of bins that were not collected are skipped.
        skipped = np.cumsum(np.where(self._wanted, 0, self.histogram), axis=1)
        return [
            keys[order[begin + ranks - below[bins]]]
            for begin, ranks, below, bins in zip(
                begins, self._ranks, skipped, self._bins, strict=True
            )
        ]

    def _places(self, keys: UInt64Array, groups: IntArray | int) -> IntArray:
        """[n] int64, the bin of each key among those of all groups."""
        return (keys >> np.uint64(64 - self._bits)).astype(np.int64) + (groups << self._bits)
