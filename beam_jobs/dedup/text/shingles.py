"""Shingles: the word 5-grams of a document as a set of sorted 32-bit hashes, and their similarity.

Two documents of 10,000 different 5-grams each share 0.02 of them by chance of their hashes (10**8
pairs in 2**32), so the similarity of the hashes is that of the 5-grams to some millionths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from beam_jobs.columns import IntArray, bounds_of, ranges, run_starts, strings
from beam_jobs.dedup.text.normalization import NormalizedTexts, normalized_words, split_ascii
from shard_format import mix

# Word 5-grams, as Lee et al. (Deduplicating Training Data Makes Language Models Better, 2022,
# section 4.2) and FineWeb (Penedo et al. 2024, on deduplication) take them.
SHINGLE_WORDS = 5
_HASH_BITS = np.uint64(32)
# One odd factor for each place in a shingle, so that the order of words counts.
_PLACES = mix(np.arange(1, SHINGLE_WORDS + 1)) | np.uint64(1)


class Shingles(NamedTuple):
    """A set for each of n documents.

    Attributes:
        hashes: [all] uint32, of each document ascending and distinct.
        begins: [n + 1] int64, where each document's begin, and the end.
    """

    hashes: npt.NDArray[np.uint32]
    begins: IntArray

    def column(self) -> pa.LargeListArray:
        """[n] large_list<uint32>."""
        return pa.LargeListArray.from_arrays(pa.array(self.begins), pa.array(self.hashes))


def shingles(text: pa.LargeStringArray) -> Shingles:
    """The shingles of documents; a document of 1 to 4 words has one, of all its words.

    Args:
        text: [n] large_string without nulls.
    """
    words, begins = _word_hashes(text)
    counts = np.diff(begins)
    # Four zeros behind the last document; _shorten corrects the short documents.
    rolled = _rolled(np.concatenate((words, np.zeros(SHINGLE_WORDS - 1, np.uint64))))
    _shorten(rolled, words, begins)
    sizes = np.where(counts, np.maximum(counts - SHINGLE_WORDS + 1, 1), 0)
    at, document = ranges(begins[:-1], sizes)
    # Document and hash in one number, so that one sort sorts every set.
    packed = (document.astype(np.uint64) << _HASH_BITS) | (mix(rolled[at]) >> _HASH_BITS)
    packed.sort()
    packed = packed[run_starts(packed)]
    edges = np.searchsorted(packed, np.arange(len(sizes) + 1, dtype=np.uint64) << _HASH_BITS)
    return Shingles(packed.astype(np.uint32), edges)


def _word_hashes(text: pa.LargeStringArray) -> tuple[npt.NDArray[np.uint64], IntArray]:
    """([w] XXH3 of the bytes of every word, [n + 1] where the words of each document begin)."""
    pieces, begins = _encoded(split_ascii(text))
    words, first = _encoded(normalized_words(pieces.dictionary))
    spelled = words.dictionary.cast(pa.large_binary()).to_pylist()
    unique = [xxhash.xxh3_64_intdigest(word) for word in spelled]
    hashes = np.array(unique, np.uint64)[words.indices.to_numpy()]
    # Each piece of a text becomes its normalized words: one, if all is ASCII.
    codes = pieces.indices.to_numpy()
    if np.array_equal(first, np.arange(len(first))):
        return hashes[codes], begins
    sizes = np.diff(first)[codes]
    at, _ = ranges(first[codes], sizes)
    return hashes[at], bounds_of(sizes)[begins]


def _encoded(words: NormalizedTexts) -> tuple[pa.DictionaryArray, IntArray]:
    """(every word, [n + 1] the first of each text)."""
    starts, begins = words.word_begins()
    return strings(starts, words.data).dictionary_encode(), begins


def _rolled(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """[w - 4] a sum of each word and the four behind it, weighted by place."""
    count = len(words) - SHINGLE_WORDS + 1
    rolled = words[:count] * _PLACES[0]
    for place in range(1, SHINGLE_WORDS):
        rolled += words[place : place + count] * _PLACES[place]
    return rolled


def _shorten(
    rolled: npt.NDArray[np.uint64], words: npt.NDArray[np.uint64], begins: IntArray
) -> None:
    """Stores the sum of all words at the first word of every document of fewer than 5."""
    counts = np.diff(begins)
    for length in range(1, SHINGLE_WORDS):
        first = begins[:-1][counts == length]
        rolled[first] = 0
        for place in range(length):
            rolled[first] += words[first + place] * _PLACES[place]


def jaccard(sets: Shingles, pairs: IntArray) -> npt.NDArray[np.float64]:
    """[k] similarity of each pair; 0 where both sets are empty.

    Args:
        sets: Shingles of n documents.
        pairs: [k, 2] int64 in [0, n); k < 2**32.
    """
    sizes = np.diff(sets.begins)[pairs]
    # Pair and hash in one number, first of one side, then of the other: each is sorted, and a
    # stable sort merges sorted runs.
    merged = np.concatenate([_tagged(sets, pairs[:, side]) for side in (0, 1)])
    merged.sort(kind="stable")
    common = merged[1:][merged[1:] == merged[:-1]] >> _HASH_BITS
    shared = np.bincount(common.astype(np.int64), minlength=len(pairs))
    return shared / np.maximum(sizes.sum(axis=1) - shared, 1)


def jaccard_across(one: Shingles, other: Shingles, pairs: IntArray) -> npt.NDArray[np.float64]:
    """[k] similarity of each pair of a set of `one` and a set of `other`; see `jaccard`."""
    hashes = np.concatenate([one.hashes, other.hashes])
    begins = np.concatenate([one.begins, other.begins[1:] + len(one.hashes)])
    return jaccard(Shingles(hashes, begins), pairs + np.array([0, len(one.begins) - 1]))


def _tagged(sets: Shingles, rows: IntArray) -> npt.NDArray[np.uint64]:
    """The hashes of each row's set, with the number of the pair above them."""
    begins = sets.begins[rows]
    at, pair = ranges(begins, sets.begins[rows + 1] - begins)
    return (pair.astype(np.uint64) << _HASH_BITS) | sets.hashes[at]
