"""The words, lines and paragraphs of a batch, as positions in its bytes.

Nothing is cut out: a word is a stretch of the batch's one buffer, and has the number of its
spelling. What a rule asks of a word it asks once of every spelling of the batch. This is about four
times as fast as lists of strings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray

BoolArray = npt.NDArray[np.bool_]
ByteArray = npt.NDArray[np.uint8]

# The white space of str.split() beyond ASCII, in UTF-8; U+3000 is the last.
_WIDE_BLANKS = [chr(point).encode() for point in range(0x80, 0x3001) if chr(point).isspace()]


@dataclasses.dataclass(frozen=True, eq=False)
class Spans:
    """Stretches of bytes that belong to documents, in order.

    Attributes:
        data: [b] uint8, the buffer they lie in, in UTF-8.
        starts: [k] int64, first byte of each.
        ends: [k] int64, one behind its last byte.
        bounds: [n + 1] int64: document i has the stretches [bounds[i], bounds[i + 1]).
    """

    data: ByteArray
    starts: IntArray
    ends: IntArray
    bounds: IntArray

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def counts(self) -> IntArray:
        """[n] int64, stretches of each document."""
        return np.diff(self.bounds)

    @cached_property
    def documents(self) -> IntArray:
        """[k] int64, the document of each stretch."""
        return np.repeat(np.arange(len(self.bounds) - 1), self.counts)

    @cached_property
    def text(self) -> pa.LargeStringArray:
        """[k] large_string, what stands there."""
        return self._woven.take(pa.array(np.arange(0, 2 * len(self), 2)))

    @cached_property
    def chars(self) -> IntArray:
        """[k] int64, Unicode code points of each stretch."""
        if len(self) == 0:
            return np.zeros(0, np.int64)
        return np.asarray(pc.utf8_length(self._woven).to_numpy(zero_copy_only=False)[::2], np.int64)

    @cached_property
    def spellings(self) -> IntArray:
        """[k] int64, equal for equal stretches of the batch."""
        if len(self) == 0:
            return np.zeros(0, np.int64)
        return self._woven.dictionary_encode().indices.to_numpy()[::2].astype(np.int64)

    @cached_property
    def _woven(self) -> pa.LargeStringArray:
        """[2k] large_string: the stretches, and after each what lies before the next."""
        offsets = np.empty(2 * len(self) + 1, np.int64)
        offsets[:-1:2], offsets[1::2] = self.starts, self.ends
        offsets[-1] = self.ends[-1] if len(self) else 0
        return strings(offsets, self.data)

    def total(self, values: npt.NDArray[Any]) -> IntArray:
        """[n] int64, the sum over the stretches of each document of [k] whole numbers or bools."""
        sums = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=sums[1:])
        return sums[self.bounds[1:]] - sums[self.bounds[:-1]]

    def joined(self, values: IntArray, join: np.ufunc) -> IntArray:
        """[n] int64, `join` over the [k] values of each document's stretches; 0 where none is."""
        result = np.zeros(len(self.bounds) - 1, np.int64)
        some = self.counts > 0
        if some.any():
            result[some] = join.reduceat(values, self.bounds[:-1][some])
        return result


@dataclasses.dataclass(frozen=True, eq=False)
class Words(Spans):
    """What stands between runs of white space (that of str.split), with the lines they stand in.

    Attributes:
        ids: [k] int64, rows of `vocabulary`.
        breaks: [k] int64, how many line breaks stand between the word and the one before it.
        vocabulary: [v] large_string, every spelling of the batch, and of its white space.
    """

    ids: IntArray
    breaks: IntArray
    vocabulary: pa.LargeStringArray

    @cached_property
    def _asked(self) -> dict[Any, npt.NDArray[Any]]:
        return {}

    def of_spelling(
        self, name: object, ask: Callable[[pa.LargeStringArray], npt.NDArray[Any]]
    ) -> npt.NDArray[Any]:
        """[k], what is said of every word by its spelling; asked once for all rules.

        Args:
            name: Of the question, with its parameters.
            ask: From [v] spellings to [v] values.
        """
        if name not in self._asked:
            self._asked[name] = np.asarray(ask(self.vocabulary))
        return self._asked[name][self.ids]

    def matching(self, pattern: str) -> BoolArray:
        """[k] bool, whether a regular expression of RE2 is found in each word."""
        return self.of_spelling(pattern, lambda spellings: matches(spellings, pattern))

    def number_of(self, text: str) -> IntArray:
        """[n] int64, how often each document has this in it; no white space may be in it."""

        def count(spellings: pa.LargeStringArray) -> npt.NDArray[Any]:
            return pc.count_substring(spellings, text).to_numpy(zero_copy_only=False)

        return self.total(self.of_spelling(("number of", text), count))

    @cached_property
    def chars(self) -> IntArray:
        """[k] int64, Unicode code points of each word."""
        return self.of_spelling(
            "chars", lambda words: pc.utf8_length(words).to_numpy(zero_copy_only=False)
        )

    @cached_property
    def spellings(self) -> IntArray:
        """[k] int64, equal for equal words of the batch."""
        return self.ids

    @cached_property
    def lines(self) -> Lines:
        """The lines that have a word, without the white space around them."""
        return self._runs(1)

    @cached_property
    def paragraphs(self) -> Lines:
        """What stands between empty lines."""
        return self._runs(2)

    def _runs(self, breaks: int) -> Lines:
        begins = self.breaks >= breaks
        begins[self.bounds[:-1][self.counts > 0]] = True
        firsts = np.flatnonzero(begins)
        lasts = np.append(firsts[1:], len(self)) - 1 if len(firsts) else firsts
        return Lines(
            self.data,
            self.starts[firsts],
            self.ends[lasts],
            np.searchsorted(firsts, self.bounds),
            firsts,
            lasts,
        )

    def filter(self, mask: BoolArray) -> Words:
        """The words of those documents for which the [n] mask holds."""
        kept = np.repeat(mask, self.counts)
        words = Words(
            self.data,
            self.starts[kept],
            self.ends[kept],
            np.concatenate([[0], np.cumsum(self.counts[mask])]),
            self.ids[kept],
            self.breaks[kept],
            self.vocabulary,
        )
        words._asked.update(self._asked)
        return words


@dataclasses.dataclass(frozen=True, eq=False)
class Lines(Spans):
    """Lines or paragraphs.

    Attributes:
        firsts: [k] int64, the first word of each.
        lasts: [k] int64, the last.
    """

    firsts: IntArray
    lasts: IntArray

    def having(self, words: BoolArray) -> BoolArray:
        """[k] bool, which have one of the words for which a mask holds."""
        sums = np.append(0, np.cumsum(words))
        return sums[self.lasts + 1] > sums[self.firsts]


def split_words(text: pa.LargeStringArray) -> Words:
    """The words of [n] documents."""
    offsets, data = buffers(text)
    if not len(data):
        none = np.zeros(0, np.int64)
        empty = pa.array([], pa.large_string())
        return Words(data, none, none, np.zeros(len(text) + 1, np.int64), none, none, empty)
    blank = _blanks(data)
    pieces = _pieces(blank, offsets)
    encoded = strings(pieces, data).dictionary_encode()
    ids = encoded.indices.to_numpy()
    at = np.flatnonzero(~blank[pieces[:-1]])
    newlines = pc.count_substring(encoded.dictionary, "\n").to_numpy(zero_copy_only=False)
    starts = pieces[at]
    bounds = np.searchsorted(starts, offsets)
    breaks = newlines[ids[at - 1]].astype(np.int64)  # a piece without white space has none
    breaks[bounds[:-1][np.diff(bounds) > 0]] = 0
    return Words(
        data,
        starts,
        pieces[at + 1],
        bounds,
        ids[at].astype(np.int64),
        breaks,
        encoded.dictionary,
    )


def count_words(text: pa.LargeStringArray) -> IntArray:
    """[n] int64, the words of each document; a tenth of the work of telling which they are."""
    offsets, data = buffers(text)
    if not len(data):
        return np.zeros(len(text), np.int64)
    blank = _blanks(data)
    pieces = _pieces(blank, offsets)[:-1]
    starts = pieces[~blank[pieces]]
    return np.diff(np.searchsorted(starts, offsets))


def _pieces(blank: BoolArray, offsets: IntArray) -> IntArray:
    """Where words and white space begin, and the end of the bytes."""
    begins = np.empty(len(blank), bool)
    begins[0] = True
    np.not_equal(blank[1:], blank[:-1], out=begins[1:])
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    return np.append(np.flatnonzero(begins), len(blank))


def strings(offsets: IntArray, data: ByteArray) -> pa.LargeStringArray:
    """[len(offsets) - 1] large_string in a buffer that is not copied."""
    return pa.LargeStringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(data)
    )


def buffers(text: pa.LargeStringArray) -> tuple[IntArray, ByteArray]:
    """([n + 1] int64 offsets that begin with 0, the bytes) of a column, not copied."""
    if not len(text):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    _, places, values = text.buffers()
    offsets = np.frombuffer(places, np.int64)[text.offset : text.offset + len(text) + 1]
    data = np.zeros(0, np.uint8) if values is None else np.frombuffer(values, np.uint8)
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def matches(text: pa.Array, pattern: str) -> BoolArray:
    """[n] bool, whether a regular expression of RE2 is found."""
    found = pc.match_substring_regex(text, pattern)
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def _blanks(data: ByteArray) -> BoolArray:
    """[b] bool, which bytes are those of white space."""
    blank = (data - np.uint8(9) <= 4) | (data - np.uint8(28) <= 4)  # \t to \r, \x1c to the blank
    if data.max() < 0x80:
        return blank
    for first in sorted({code[0] for code in _WIDE_BLANKS}):
        places = np.flatnonzero(data == first)
        for code in (code for code in _WIDE_BLANKS if code[0] == first):
            found = places[places <= len(data) - len(code)]
            for step, byte in enumerate(code[1:], 1):
                found = found[data[found + step] == byte]
            for step in range(len(code)):
                blank[found + step] = True
    return blank
