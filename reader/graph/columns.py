"""Columns of a split's index inside a TensorFlow graph, through a memory map: nothing is loaded.

An index has a row per record, and a graph that held it, as a constant or as a variable, would grow
with the set. TensorFlow can map a file as a tensor (ImmutableConst), and an Arrow file keeps each
column of a record batch in one piece, aligned to 8 bytes; so a lookup is a gather at computed
places, which touches only the pages that it needs, needs no Python, and can be serialized.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from typing_extensions import override

from reader.records.open_split import OpenSplit
from reader.records.split_index import IndexInParts, SplitIndex
from shard_format import DamageError

# TensorFlow would fold this constant: copy the whole file when a graph is first run (0.7 s and
# 330 MB for 20 million rows), to find that it is too large. It leaves alone what has this attribute
# (common_runtime/constant_folding.cc), which as an empty list means nothing else.
_UNFOLDED = "_scoped_allocator"
_DTYPES = {pa.int32(): tf.int32, pa.int64(): tf.int64}


def mapped_file(path: Path, dtype: Any, size: int) -> Any:
    """[size] values of a file as a tensor, of which TensorFlow reads what is used."""
    mapped = tf.raw_ops.ImmutableConst(dtype=dtype, shape=[size], memory_region_name=str(path))
    if not tf.executing_eagerly():
        mapped.op._set_attr(_UNFOLDED, AttrValue(list=AttrValue.ListValue()))
    return mapped


class GraphColumns(Protocol):
    """Columns of an index inside a graph."""

    def column(self, name: str, records: Any) -> Any:
        """[n] int64: the values of a column at [n] int64 record numbers."""


def graph_columns(split: OpenSplit, names: tuple[str, ...], *, portable: bool) -> GraphColumns:
    """Some columns of the index of a split, in a graph.

    Args:
        split: The split.
        names: Names of the columns.
        portable: Whether the graph may be sent to other processes, which have the files. Of an
            index in parts all are then opened.
    """
    if not portable and isinstance(split.index, IndexInParts):
        return PythonColumns(split.index)
    parts = split.manifest.index_parts(split.name)
    return IndexColumns([split.root / part.file for part in parts], names)


class PythonColumns(GraphColumns):
    """Looks up columns of an index in parts in Python, where parts are read when they are needed.

    Args:
        index: The index.
    """

    def __init__(self, index: SplitIndex) -> None:
        self._index = index

    @override
    def column(self, name: str, records: Any) -> Any:
        def look(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            return self._index.take((name,), numbers)[0]

        values = tf.numpy_function(look, [records], tf.int64, stateful=False)
        values.set_shape([None])
        return values


class IndexColumns(GraphColumns):
    """Looks up columns of whole numbers of an index.

    Args:
        parts: Paths of the files of the index, in order.
        columns: The names of the columns that will be asked for.

    Raises:
        DamageError: A column has nulls, is not of int32 or int64, or is compressed.
    """

    def __init__(self, parts: Sequence[Path], columns: tuple[str, ...]) -> None:
        opened = [_MappedPart(path, columns) for path in parts]
        self._parts = [part for part in opened if len(part.rows)] or opened[:1]
        self._types = self._parts[0].types
        for part in self._parts:
            if part.types != self._types:
                raise DamageError(
                    f"Columns {', '.join(columns)} of the index are of other types in {part.path} "
                    f"than in {parts[0]}. Build the set again."
                )
        rows = np.concatenate([part.rows for part in self._parts])
        ends = np.cumsum(rows, dtype=np.int64)
        self.num_records = int(rows.sum())
        # Where row 0 of the split would be if the batch began with it, in values.
        self._bases = {
            name: tf.constant(
                np.concatenate([part.places[name] for part in self._parts]) // dtype.size
                - (ends - rows)
            )
            for name, dtype in self._types.items()
        }
        counts = [len(part.rows) for part in self._parts]
        self._part_of = tf.constant(np.repeat(np.arange(len(counts), dtype=np.int32), counts))
        self._ends = tf.constant(ends)

    @override
    def column(self, name: str, records: Any) -> Any:
        dtype, several = self._types[name], len(self._parts)
        batch = tf.searchsorted(self._ends, records, side="right", out_type=tf.int64)
        places = tf.gather(self._bases[name], batch) + records
        mapped = [mapped_file(part.path, dtype, part.size // dtype.size) for part in self._parts]
        if several == 1:
            return tf.cast(tf.gather(mapped[0], places), tf.int64)
        part_of = tf.gather(self._part_of, batch)
        own = zip(mapped, tf.dynamic_partition(places, part_of, several), strict=True)
        values = [tf.cast(tf.gather(one, some), tf.int64) for one, some in own]
        numbers = tf.range(tf.size(places))
        return tf.dynamic_stitch(tf.dynamic_partition(numbers, part_of, several), values)


class _MappedPart:
    """Where the columns of one file are.

    Attributes:
        path: The file.
        size: Its bytes.
        rows: [batches] int64, rows of each record batch that has any.
        places: By column, [batches] int64, its first byte in each.
        types: Types of the columns.
    """

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self.path = path
        self.types: dict[str, Any] = {}
        with pa.memory_map(str(path)) as source:
            self.size = source.size()
            base = source.read_buffer(self.size).address
            source.seek(0)
            file = pa.ipc.open_file(source)
            batches = [file.get_batch(number) for number in range(file.num_record_batches)]
            batches = [batch for batch in batches if batch.num_rows]
            self.rows = np.array([batch.num_rows for batch in batches], np.int64)
            self.places = {
                name: np.array(
                    [self._place(batch.column(name), name, base) for batch in batches], np.int64
                )
                for name in columns
            }

    def _place(self, array: pa.Array, name: str, base: int) -> int:
        """The offset of a column in the file, which is mapped at the address `base`."""
        if array.type not in _DTYPES or array.null_count:
            raise DamageError(
                f"Column {name!r} of the index is {array.type} with {array.null_count} nulls, not "
                f"integers without nulls, in {self.path}. Build the set again."
            )
        dtype = self.types[name] = _DTYPES[array.type]
        place = array.buffers()[1].address + array.offset * dtype.size - base
        if not 0 <= place <= self.size - len(array) * dtype.size:  # decompressed, elsewhere
            raise DamageError(
                f"Column {name!r} of the index is compressed, so it cannot be mapped, in "
                f"{self.path}. Build the set again."
            )
        return int(place)
