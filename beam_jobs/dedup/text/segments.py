"""Lines and paragraphs: the parts of a document that may stand elsewhere in the corpus too.

A part is known by its number in its document, so it can be found on columns when a document is
staged, and taken out of its text when a shard is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from beam_jobs.columns import IntArray
from beam_jobs.dedup.text.normalization import folded
from shard_format.keys import UInt64Array

# What stands between two parts, by the value of --dedup-parts; no other white space, so that RE2
# and Python agree.
_BREAKS = {"lines": r"\n", "paragraphs": r"\n(?:[ \t\r\f\x0b]*\n)+"}

# Hashes of parts that are never compared.
BLANK = 0  # white space alone
SHORT = 1  # too short to be a duplicate: "}", "Yes."
# A part is long enough from 5 words on, which is what the code of C4 demands of a line (c4_utils.py
# of tensorflow_datasets; Raffel et al. 2020, section 2.2, says 3). CCNet (Wenzek et al. 2020)
# compares paragraphs of any length. Where words are 20 characters long on average, there are no
# blanks between words, and 20 characters are enough.
MIN_WORDS = 5
MIN_CHARS_SPACELESS = 20
_CONTINUES, _CONTINUATION = 0xC0, 0x80  # of a byte of UTF-8 behind the first of its character


def part_hashes(text: pa.LargeStringArray, kind: str) -> pa.LargeListArray:
    """[n] large_list<uint64>: a hash of every part of each text, folded as fingerprints are.

    Equal parts have equal hashes; of 10**9 different ones, two have the same with chance 0.03.

    Args:
        text: [n] large_string without nulls.
        kind: "lines" or "paragraphs".
    """
    split = pc.split_pattern_regex(text, _BREAKS[kind])
    parts = split.flatten().cast(pa.large_string())
    begins = np.concatenate(([0], np.cumsum(pc.list_value_length(split).to_numpy())))
    return pa.LargeListArray.from_arrays(pa.array(begins, pa.int64()), pa.array(_hashes(parts)))


def _hashes(parts: pa.LargeStringArray) -> UInt64Array:
    of = folded(parts)
    _, first_word = of.word_begins()
    words = np.diff(first_word)
    chars = _characters(of.data, of.begins) - words  # without the blanks
    long = (words >= MIN_WORDS) | (
        (words > 0) & (chars >= MIN_CHARS_SPACELESS * np.maximum(words, 1))
    )
    hashes = np.where(words, np.uint64(SHORT), np.uint64(BLANK))
    data = of.data.data
    spans = zip(of.begins[:-1][long].tolist(), of.begins[1:][long].tolist(), strict=True)
    found = [xxhash.xxh3_64_intdigest(data[begin:end]) for begin, end in spans]
    hashes[long] = np.maximum(np.array(found, np.uint64), np.uint64(SHORT + 1))
    return hashes


def _characters(data: npt.NDArray[np.uint8], begins: IntArray) -> IntArray:
    """[n] code points between begins."""
    firsts = np.flatnonzero((data & _CONTINUES) != _CONTINUATION)
    return np.diff(np.searchsorted(firsts, begins))


def drop_parts(text: str, dropped: Sequence[int], kind: str) -> str:
    """A text without some of its parts, nor the breaks behind them.

    Args:
        text: As it was staged.
        dropped: Numbers of parts.
        kind: "lines" or "paragraphs".
    """
    if not dropped:
        return text
    pieces = re.split(f"({_BREAKS[kind]})", text)  # part, break, part, ..., part
    out = set(dropped)
    kept = [number for number in range(0, len(pieces), 2) if number // 2 not in out]
    left = "".join("".join(pieces[number : number + 2]) for number in kept[:-1])
    return (left + pieces[kept[-1]] if kept else left).strip("\n")
