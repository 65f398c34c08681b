"""Where chosen places are among keys, exactly and in bounded memory: in splits, in classes.

A first pass over the keys counts them by their leading bits; a second collects the keys of those
bins that have a wanted place. Never are all keys in memory at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import BoolArray, IntArray
from beam_jobs.staging.reordering import StructuredArray
from shard_format.keys import UInt64Array

# The keys of a bin with a wanted rank are in memory, and so is the count of every bin: up to 2**24
# bins, 128 MiB, from 2 billion records on.
_KEYS_OF_BIN = 256
_LEAST_BITS, _MOST_BITS = 16, 24

# A key that was collected, its weight, and the number of its bin among those of all groups.
COLLECTED = np.dtype([("bin", np.int64), ("key", np.uint64), ("weight", np.int64)])


def histogram_bits(records: int) -> int:
    """Leading bits to count by, for so many records in one group."""
    return min(_MOST_BITS, max(_LEAST_BITS, (records // _KEYS_OF_BIN).bit_length()))


def class_bits(records: int, classes: int) -> int:
    """Leading bits to count by, for so many records in some classes: about as many bins in all."""
    return max(4, histogram_bits(records) - classes.bit_length())


class Quantiles:
    """Finds the keys at some places in each of some groups.

    In the order of a group, each key takes as much room as its weight; at a place is the first key
    whose middle is there or behind. So with weights of 1, at place i is the key of rank i.

    Call `count` with all keys, then `choose`, then `collect` with all keys again, then `keys`.
    Where each worker has some of the keys, histograms add up, `wanted` tells others which keys to
    collect, and what they have `collected` is joined.

    Args:
        bits: Leading bits of the key to count by.
        groups: How many groups there are.

    Attributes:
        histogram: [groups, 2**bits] int64, the weight of each bin.
        wanted: [groups, 2**bits] bool, the bins whose keys are collected.
        collected: Arrays of COLLECTED.
    """

    def __init__(self, bits: int, groups: int = 1) -> None:
        self._bits = bits
        self.histogram: npt.NDArray[np.int64] = np.zeros((groups, 1 << bits), np.int64)
        self._places: Sequence[npt.NDArray[Any]] = ()
        self._bins: Sequence[IntArray] = ()  # of the places
        self.wanted: BoolArray = np.zeros(self.histogram.shape, bool)
        self.collected: list[StructuredArray] = []

    @property
    def counts(self) -> IntArray:
        """[groups] int64, the weight of each."""
        return self.histogram.sum(axis=1)

    def count(
        self, keys: UInt64Array, groups: IntArray | int = 0, weights: IntArray | int = 1
    ) -> None:
        """First pass: [n] keys; the group and the weight of each, or of all."""
        np.add.at(self.histogram.reshape(-1), self._bins_of(keys, groups), weights)

    def choose(self, places: Sequence[npt.NDArray[Any]]) -> None:
        """Sets the places to find in each group, at most the weight of the group."""
        self._places = places
        ends = np.cumsum(self.histogram, axis=1)
        bins = [np.searchsorted(*of, side="right") for of in zip(ends, places, strict=True)]
        self._bins = [np.minimum(one, self.histogram.shape[1] - 1) for one in bins]
        for group, wanted in enumerate(self._bins):
            self.wanted[group, wanted] = True

    def collect(
        self, keys: UInt64Array, groups: IntArray | int = 0, weights: IntArray | int = 1
    ) -> None:
        """Second pass."""
        bins = self._bins_of(keys, groups)
        inside = self.wanted.reshape(-1)[bins]
        rows = np.empty(int(inside.sum()), COLLECTED)
        rows["bin"], rows["key"] = bins[inside], keys[inside]
        rows["weight"] = np.broadcast_to(np.asarray(weights, np.int64), keys.shape)[inside]
        self.collected.append(rows)

    def collect_distinct(self, keys: UInt64Array, groups: IntArray) -> None:
        """Second pass, which holds each key of a group once, however many of it come at a time."""
        for group in np.unique(groups).tolist():
            self.collect(*_distinct(keys[groups == group], group))

    def keys(self) -> list[UInt64Array]:
        """By group: a key for each place, which those behind it have at least, and no others."""
        chosen = []
        for places, wanted, rows, before in self._by_group():
            at = np.searchsorted(before + rows["weight"] / 2, places)
            inside = np.append(rows["bin"], -1)[at] == wanted
            keys = np.append(rows["key"], np.uint64(0))[at]
            chosen.append(np.where(inside, keys, self._end(wanted)))
        return chosen

    def at_places(self) -> Iterator[tuple[npt.NDArray[Any], UInt64Array, IntArray]]:
        """By group: (places, the key that is there, the weight of all lower keys)."""
        for places, _, rows, before in self._by_group():
            at = np.searchsorted(before + rows["weight"], places, side="right")
            keys = np.ascontiguousarray(rows["key"])
            yield places, keys[at], before[np.searchsorted(keys, keys[at])]

    def _by_group(
        self,
    ) -> Iterator[tuple[npt.NDArray[Any], IntArray, StructuredArray, IntArray]]:
        """(places, their bins, what was collected by key, the weight before each) of each group."""
        rows = np.concatenate([np.empty(0, COLLECTED), *self.collected])
        rows = rows[np.lexsort((rows["key"], rows["bin"] >> self._bits))]
        bins = np.ascontiguousarray(rows["bin"])
        # The weight of bins that were not collected is before a key, too.
        skipped = np.cumsum(np.where(self.wanted, 0, self.histogram), axis=1)
        for group, (places, wanted) in enumerate(zip(self._places, self._bins, strict=True)):
            own = slice(*np.searchsorted(bins, [group << self._bits, (group + 1) << self._bits]))
            collected = rows[own].copy()
            collected["bin"] -= group << self._bits
            before = np.cumsum(collected["weight"]) - collected["weight"]
            yield places, wanted, collected, before + skipped[group][collected["bin"]]

    def _bins_of(self, keys: UInt64Array, groups: IntArray | int) -> IntArray:
        """[n] int64, the bin of each key among those of all groups."""
        return (keys >> np.uint64(64 - self._bits)).astype(np.int64) + (groups << self._bits)

    def _end(self, bins: IntArray) -> UInt64Array:
        """The first key behind each bin; of the last one the largest key."""
        last = bins == self.histogram.shape[1] - 1
        ends = (bins + 1).astype(np.uint64) << np.uint64(64 - self._bits)
        return np.where(last, np.iinfo(np.uint64).max, ends)


def _distinct(keys: UInt64Array, group: int) -> tuple[UInt64Array, int, IntArray]:
    """Each key once, its group, and how often it is there."""
    distinct, times = np.unique(keys, return_counts=True)
    return distinct, group, times
