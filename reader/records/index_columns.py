"""Columns of a split's index inside a TensorFlow graph, through a memory map: nothing is loaded.

An index has a row per record, and a graph that held it, as a constant or as a variable, would grow
with the set. TensorFlow can map a file as a tensor (ImmutableConst), and an Arrow file keeps each
column of a record batch in one piece, aligned to 8 bytes; so a lookup is a gather at computed
places, which touches only the pages that it needs, needs no Python, and can be serialized.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

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


class IndexColumns:
    """Looks up columns of whole numbers of an index.

    Args:
        path: The index.
        columns: The names of the columns that will be asked for.

    Raises:
        DamageError: A column has nulls, is not of int32 or int64, or is compressed.
    """

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self._path = path
        with pa.memory_map(str(path)) as source:
            self._bytes = source.size()
            base = source.read_buffer(self._bytes).address
            source.seek(0)
            batches = pa.ipc.open_file(source)
            rows = [batches.get_batch(number) for number in range(batches.num_record_batches)]
            rows = [batch for batch in rows if batch.num_rows]
            ends = np.cumsum([batch.num_rows for batch in rows], dtype=np.int64)
            self.num_records = int(ends[-1]) if rows else 0
            # Where row 0 of the split would be if the batch began with it, in values.
            self._bases: dict[str, Any] = {}
            self._types: dict[str, Any] = {}
            for name in columns:
                places = [self._place(batch.column(name), name, base) for batch in rows]
                width = self._types[name].size
                firsts = ends - np.array([batch.num_rows for batch in rows], np.int64)
                self._bases[name] = tf.constant(np.array(places, np.int64) // width - firsts)
        self._ends = tf.constant(ends)

    def column(self, name: str, records: Any) -> Any:
        """[n] int64: the values of a column at [n] int64 record numbers."""
        dtype = self._types[name]
        mapped = mapped_file(self._path, dtype, self._bytes // dtype.size)
        batch = tf.searchsorted(self._ends, records, side="right", out_type=tf.int64)
        places = tf.gather(self._bases[name], batch) + records
        return tf.cast(tf.gather(mapped, places), tf.int64)

    def _place(self, array: pa.Array, name: str, base: int) -> int:
        """The offset of a column in the file, which is mapped at the address `base`."""
        if array.type not in _DTYPES or array.null_count:
            raise DamageError(
                f"Column {name!r} of the index is {array.type} with {array.null_count} nulls, not "
                f"integers without nulls, in {self._path}. Build the set again."
            )
        dtype = self._types[name] = _DTYPES[array.type]
        place = array.buffers()[1].address + array.offset * dtype.size - base
        if not 0 <= place <= self._bytes - len(array) * dtype.size:  # decompressed, elsewhere
            raise DamageError(
                f"Column {name!r} of the index is compressed, so it cannot be mapped, in "
                f"{self._path}. Build the set again."
            )
        return int(place)
