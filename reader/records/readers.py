"""Readers of serialized records, from files or memory, in TensorFlow operations."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from typing_extensions import override

from reader.records.index_columns import GraphColumns
from shard_format import DamageError, SplitInfo
from shard_format.shard_list import shard_numbers

# Runs of records that are read at a time. More hides more latency (an NFS or object store answers
# in milliseconds); from the page cache anything from 2 to 16 is the same.
PARALLEL_READS = 8
# The columns of an index by which records are found.
LOCATION_COLUMNS = ("offset", "length")


class RecordReader(abc.ABC):
    """Reads serialized records for the pipeline."""

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


class FileRecordReader(RecordReader):
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


@dataclasses.dataclass(frozen=True)
class MemoryRecordReader(RecordReader):
    """Picks records out of one tensor.

    Attributes:
        serialized: [num_records] string.
        sources: [num_records] int64, the numbers of the records that these are, where others are in
            place of damaged ones; None where none is.
    """

    serialized: Any
    sources: Any = None

    @override
    def read(self, numbers: Any) -> Any:
        return tf.gather(self.serialized, numbers)

    @override
    def read_skipping(self, numbers: Any) -> Any:
        sources = numbers if self.sources is None else tf.gather(self.sources, numbers)
        return self.read(numbers), sources


def read_into_memory(paths: Sequence[Path], split: SplitInfo) -> MemoryRecordReader:
    """All records of a split in memory.

    Args:
        paths: The shards of the split in order.
        split: The split; has at least one record.

    Raises:
        tf.errors.DataLossError: A shard cannot be read to its end.
        tf.errors.NotFoundError: There is no such file.
        DamageError: The shards hold another number of records.
    """
    records = tf.data.TFRecordDataset([str(path) for path in paths], buffer_size=4 << 20)
    serialized = next(iter(records.batch(split.records + 1)))
    count = int(tf.size(serialized))
    if count != split.records:
        raise DamageError(
            f"The split has {count} records, but {split.records} in the manifest, in "
            f"{paths[0].parent}. Run 'shardmill verify'."
        )
    return MemoryRecordReader(serialized)
