"""Serialized records inside a TensorFlow graph: by calls of Python, or by operations alone."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from foundation.lazy_names import lazy_module
from reader.graph.columns import GraphColumns
from reader.records.readers import RecordReader
from shard_format import SplitInfo
from shard_format.example_parser import Examples
from shard_format.shard_list import shard_numbers

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = lazy_module("tensorflow")

# Runs of records that are read at a time. More hides more latency (an NFS or object store answers
# in milliseconds); from the page cache anything from 2 to 16 is the same.
PARALLEL_READS = 8
# What one call of Python reads: TensorFlow copies what it returns, so all of a window would be in
# memory twice.
_PIECE_RECORDS = 512


class GraphRecordReader(abc.ABC):
    """Reads serialized records for a graph."""

    @abc.abstractmethod
    def read(self, numbers: Any) -> Any:
        """[n] string: the serialized records of these numbers, in their order.

        Args:
            numbers: [n] int64 record numbers of the split, n at least 1. Adjacent ones
                are read together.
        """

    def read_skipping(self, numbers: Any) -> Any:
        """The records, with another one of the split in place of each that is damaged.

        Args:
            numbers: [n] int64 record numbers of the split.

        Returns:
            [n] string, and the [n] int64 numbers of the records that they are.
        """
        return self.read(numbers), numbers


@dataclasses.dataclass(frozen=True)
class CalledReader(GraphRecordReader):
    """Calls a reader in Python; a graph with it cannot be sent to another process.

    Attributes:
        record_reader: Reader to call.
    """

    record_reader: RecordReader

    @override
    def read(self, numbers: Any) -> Any:
        def read(piece: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
            return _objects(self.record_reader.read(piece))

        return self._in_pieces(read, numbers, tf.string)

    @override
    def read_skipping(self, numbers: Any) -> Any:
        def read(piece: npt.NDArray[np.int64]) -> Any:
            examples, sources = self.record_reader.read_skipping(piece)
            return _objects(examples), sources

        return self._in_pieces(read, numbers, (tf.string, tf.int64))

    def _in_pieces(self, read: Any, numbers: Any, types: Any) -> Any:
        """What a function of [n] int64 numbers gives, called for some of them at a time."""

        def call(piece: Any) -> Any:
            # Without a state: with one, a deterministic data set would be sequential.
            tensors = tf.numpy_function(read, [piece], types, stateful=False)
            for one in tf.nest.flatten(tensors):
                one.set_shape([None])
            return tensors if types is tf.string else tuple(tensors)

        pieces = tf.data.Dataset.from_tensors(numbers).unbatch().batch(_PIECE_RECORDS)
        # One after the other: calls at the same time would hand the interpreter's lock to and fro.
        parts = pieces.map(call).unbatch()
        return parts.batch(tf.size(numbers, tf.int64)).get_single_element()


def _objects(examples: Examples) -> npt.NDArray[np.object_]:
    """[n] bytes."""
    serialized = np.empty(len(examples), object)
    serialized[:] = list(map(bytes, examples))
    return serialized


class FileRecordReader(GraphRecordReader):
    """Reads records from the shards each time, and not a byte of any other.

    In operations of TensorFlow alone: in any process that a graph is sent to.

    Args:
        paths: The shards of the split in order.
        split: How many records each has.
        index: Their offsets and lengths; opened with `LOCATION_COLUMNS`.
        run_records: No more than that many are read in one piece.
    """

    def __init__(
        self, paths: Sequence[Path], split: SplitInfo, index: GraphColumns, run_records: int
    ) -> None:
        # Eager tensors, which the graph captures: constants inside the graph would count against
        # the 2 GB that a graph may have.
        self._paths = tf.constant([str(path) for path in paths])
        self._ends = tf.constant(np.cumsum(shard_numbers(split.shards, "records")))
        self._bytes = tf.constant(shard_numbers(split.shards, "bytes"))
        self._index = index
        self._run_records = run_records

    @override
    def read(self, numbers: Any) -> Any:
        shards = tf.searchsorted(self._ends, numbers, side="right", out_type=tf.int64)
        begins = self._index.column("offset", numbers)
        lengths = self._index.column("length", numbers)
        # A wrong number must not become the size of a buffer: that would end the process.
        inside = (
            (begins >= 0) & (lengths > 0) & (begins <= tf.gather(self._bytes, shards) - lengths)
        )
        message = "The index names a place outside of its shard; run 'shardmill verify'."
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(inside), [message])]):
            ends = begins + lengths
        count = tf.size(numbers, tf.int64)
        places = tf.range(count)
        breaks = (shards[1:] != shards[:-1]) | (begins[1:] != ends[:-1])
        breaks |= places[1:] % self._run_records == 0
        first = tf.boolean_mask(places, tf.concat([[True], breaks], axis=0))
        last = tf.concat([first[1:], [count]], axis=0) - 1

        def read_run(shard: Any, begin: Any, size: Any, records: Any) -> Any:
            dataset = tf.raw_ops.TFRecordDatasetV2(
                filenames=[self._paths[shard]],
                compression_type="",
                buffer_size=size,  # one read for the run, and not a byte beyond it
                byte_offsets=[begin],
            )
            spec = tf.TensorSpec([], tf.string)
            return tf.data.experimental.from_variant(dataset, spec).take(records)

        begin = tf.gather(begins, first)
        runs = (tf.gather(shards, first), begin, tf.gather(ends, last) - begin, last - first + 1)
        # In a deterministic interleave whose blocks are no shorter than its runs, the elements come
        # run by run in order, while the next runs are read.
        payloads = tf.data.Dataset.from_tensor_slices(runs).interleave(
            read_run,
            cycle_length=PARALLEL_READS,
            block_length=self._run_records,
            num_parallel_calls=PARALLEL_READS,
            deterministic=True,
        )
        return payloads.batch(count).get_single_element()
