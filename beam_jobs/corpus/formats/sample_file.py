"""Samples behind a table of their offsets: what MDS and LitData have in common.

A file begins with a uint32, the number of samples, and as many offsets and one more, uint32 too,
the last of which is the end of the samples. All integers are little-endian.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from beam_jobs.columns import IntArray
from beam_jobs.corpus.formats.columnar import BATCH_BYTES, MAX_BATCH_ROWS, ColumnFile, RowGroup
from beam_jobs.corpus.streams import ByteStream

_GROUP_BYTES = 1 << 20  # 1 MiB: samples that are a group of rows
_WORD = 4


class SampleColumn(NamedTuple):
    """A column of the samples of a file.

    Attributes:
        type: Its type in Arrow.
        decode: Makes a value of the bytes that are stored.
    """

    type: pa.DataType
    decode: Callable[[bytes], Any]


class SampleFile(ColumnFile):
    """An open file of samples.

    Args:
        file: At its beginning; can be read anywhere.

    Raises:
        ValueError: It has no such table.
    """

    def __init__(self, file: ByteStream) -> None:
        self._file = file
        self._offsets = _read_offsets(file)
        self._groups = list(_groups(self._offsets))
        self.columns = self.read_columns(file, int(self._offsets[0]))
        self.schema = pa.schema([(name, one.type) for name, one in self.columns.items()])

    @abc.abstractmethod
    def read_columns(self, file: ByteStream, end: int) -> dict[str, SampleColumn]:
        """The columns that can be read, by name.

        Args:
            file: Behind the offsets.
            end: First byte of the first sample.

        Raises:
            ValueError: The file does not say them.
        """

    @abc.abstractmethod
    def cells(self, sample: bytes) -> dict[str, bytes]:
        """The bytes of a sample by the name of the column.

        Raises:
            ValueError: They are no sample.
        """

    @override
    def groups(self) -> Iterator[RowGroup]:
        return (group for _, group in self._groups)

    @override
    def batches(self, group: RowGroup, columns: list[str]) -> Iterator[pa.RecordBatch]:
        start, _ = self._groups[group.number]
        rows: list[dict[str, bytes]] = []
        size = 0
        for row in range(start, start + group.rows):
            begin, end = self._offsets[row : row + 2].tolist()
            self._file.seek(begin)
            sample = self._file.read(end - begin)
            if len(sample) < end - begin:
                raise ValueError(f"the file ends in sample {row}")
            rows.append(self.cells(sample))
            size += len(sample)
            if size >= BATCH_BYTES or len(rows) == MAX_BATCH_ROWS:
                yield self._batch(rows, columns)
                rows, size = [], 0
        if rows:
            yield self._batch(rows, columns)

    def _batch(self, rows: list[dict[str, bytes]], names: list[str]) -> pa.RecordBatch:
        if not names:  # rows without any wanted column are rows too
            return pa.record_batch([pa.nulls(len(rows))], names=[""])
        arrays = []
        for name in names:
            column = self.columns[name]
            arrays.append(pa.array([column.decode(row[name]) for row in rows], column.type))
        return pa.record_batch(arrays, names=names)


def _groups(offsets: IntArray) -> Iterator[tuple[int, RowGroup]]:
    """(first row, group) of samples that follow each other."""
    start = number = 0
    while start < len(offsets) - 1:
        end = int(np.searchsorted(offsets, offsets[start] + _GROUP_BYTES, side="right"))
        end = min(max(end, start + 1), len(offsets) - 1)
        yield start, RowGroup(number, end - start, int(offsets[end] - offsets[start]))
        start, number = end, number + 1


def _read_offsets(file: ByteStream) -> IntArray:
    """[n + 1] int64: where each sample begins, and the end of the last.

    Raises:
        ValueError: They are not ascending, or the file ends in them.
    """
    file.seek(0)
    head = file.read(_WORD)
    number = int(np.frombuffer(head, "<u4")[0]) if len(head) == _WORD else -1
    data = file.read(_WORD * (number + 1)) if number >= 0 else b""
    if number < 0 or len(data) < _WORD * (number + 1):
        raise ValueError("the file ends in the offsets of its samples")
    offsets = np.frombuffer(data, "<u4").astype(np.int64)
    if offsets[0] < _WORD * (number + 2) or (np.diff(offsets) < 0).any():
        raise ValueError("the offsets of its samples are not ascending")
    return offsets
