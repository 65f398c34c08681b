"""Segments: the lines or paragraphs of a document, which may occur elsewhere in the corpus too.

A segment is known by its number in its document: `segment_hashes` finds it on columns when a
document is staged, `remove_segments` takes it out of the text when a shard is written.
"""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from typing_extensions import override

from beam_jobs.columns import IntArray
from beam_jobs.dedup.text.normalization import normalized
from beam_jobs.staging.examples import BuiltExample, ExampleBuilder, StagedRecord
from shard_format import Feature, decode_example, encode_features, finish_example
from shard_format.keys import UInt64Array

# Column of a recipe, and of the table of a shard: numbers of the segments to remove, list<int32>.
REMOVED_SEGMENTS = "removed_segments"

# Separators by the value of --dedup-parts; no other white space, so that RE2 and Python agree.
_BREAKS = {"lines": r"\n", "paragraphs": r"\n(?:[ \t\r\f\x0b]*\n)+"}

# Hashes of segments that are never compared.
BLANK = 0  # white space alone
SHORT = 1  # too short to be a duplicate: "}", "Yes."
# A segment is long enough from 5 words on, as in the code of C4 (c4_utils.py of
# tensorflow_datasets; Raffel et al. 2020, section 2.2, says 3). CCNet (Wenzek et al. 2020) compares
# paragraphs of any length. Where words have 20 characters on average, there are no blanks between
# words, and 20 characters are enough.
MIN_WORDS = 5
MIN_CHARS_SPACELESS = 20
_CONTINUES, _CONTINUATION = 0xC0, 0x80  # UTF-8: mask and value of all but the first byte


def segment_hashes(text: pa.LargeStringArray, kind: str) -> pa.LargeListArray:
    """[n] large_list<uint64>: a hash of every segment, normalized as for fingerprints.

    Equal segments have equal hashes; among 10**9 different ones, two are equal with chance 0.03.

    Args:
        text: [n] large_string without nulls.
        kind: "lines" or "paragraphs".
    """
    split = pc.split_pattern_regex(text, _BREAKS[kind])
    segments = split.values.cast(pa.large_string())
    return pa.LargeListArray.from_arrays(split.offsets.cast(pa.int64()), _hashes(segments))


def _hashes(segments: pa.LargeStringArray) -> UInt64Array:
    of = normalized(segments)
    _, first_word = of.word_begins()
    words = np.diff(first_word)
    chars = _characters(of.data, of.begins) - words  # without the blanks
    long = (words >= MIN_WORDS) | (
        (words > 0) & (chars >= MIN_CHARS_SPACELESS * np.maximum(words, 1))
    )
    hashes = np.where(words, np.uint64(SHORT), np.uint64(BLANK))
    data = of.data.data
    spans = zip(of.begins[:-1][long].tolist(), of.begins[1:][long].tolist(), strict=True)
    digests = [xxhash.xxh3_64_intdigest(data[begin:end]) for begin, end in spans]
    hashes[long] = np.maximum(np.array(digests, np.uint64), np.uint64(SHORT + 1))
    return hashes


def _characters(data: npt.NDArray[np.uint8], begins: IntArray) -> IntArray:
    """[n] code points between begins."""
    firsts = np.flatnonzero((data & _CONTINUES) != _CONTINUATION)
    return np.diff(np.searchsorted(firsts, begins))


def remove_segments(text: str, removed: Sequence[int], kind: str) -> str:
    """A text without some of its segments and the separators behind them.

    Args:
        text: As it was staged.
        removed: Numbers of segments.
        kind: "lines" or "paragraphs".
    """
    if not removed:
        return text
    pieces = re.split(f"({_BREAKS[kind]})", text)  # segment, separator, segment, ..., segment
    out = set(removed)
    kept = [number for number in range(0, len(pieces), 2) if number // 2 not in out]
    left = "".join("".join(pieces[number : number + 2]) for number in kept[:-1])
    return (left + pieces[kept[-1]] if kept else left).strip("\n")


# From a text to the index columns that describe it, `_MEASURED`.
Measure = Callable[[str], dict[str, int]]
_MEASURED = ("chars", "words")


@dataclasses.dataclass(frozen=True)
class SegmentRemover(ExampleBuilder):
    r"""Removes segments from staged records and passes these on to another builder.

    Input: a record staged as "A line.\nA line of every page.", with [1] as "removed_segments" in
    its row of the table. Passed on: the record with the text "A line.". Output: what the other
    builder makes of it, with the columns that `measure` computes of the remaining text, where the
    other builder sets no such columns.

    Attributes:
        features: Features of a staged record, in their order.
        kind: "lines" or "paragraphs".
        builder: Makes the examples.
        measure: Measures a text; None if the index has no such columns.
    """

    features: Sequence[Feature]
    kind: str
    builder: ExampleBuilder
    measure: Measure | None

    @override
    @property
    def joins_records(self) -> bool:
        return self.builder.joins_records

    @override
    def build(self, table: pa.Table, staged: Iterator[StagedRecord]) -> Iterator[BuiltExample]:
        # (row, index columns) of the records that were passed on.
        passed: deque[tuple[int, Mapping[str, int]]] = deque()
        for built in self.builder.build(table, self._edited(table, staged, passed)):
            while passed[0][0] < built.row:
                passed.popleft()
            yield built._replace(columns={**passed[0][1], **built.columns})

    @override
    def counters(self) -> pa.Table | None:
        return self.builder.counters()

    def _edited(
        self,
        table: pa.Table,
        staged: Iterator[StagedRecord],
        passed: deque[tuple[int, Mapping[str, int]]],
    ) -> Iterator[StagedRecord]:
        removed = table[REMOVED_SEGMENTS].to_pylist()
        measured = table.select(_MEASURED).to_pylist() if self.measure is not None else None
        for record in staged:
            # All examples of a shard must have the same columns, changed or not.
            columns = measured[record.row] if measured else {}
            if removed[record.row]:
                values: dict[str, Any] = dict(decode_example(finish_example(record.entries)))
                text = remove_segments(values["text"][0].decode(), removed[record.row], self.kind)
                values["text"] = text
                record = record._replace(entries=encode_features(self.features, values))
                columns = self.measure(text) if self.measure is not None else {}
            passed.append((record.row, columns))
            yield record
