"""The serialized records of a window, from files or from memory, in TensorFlow operations."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Protocol

import tensorflow as tf

from reader.chunks import Chunks
from shard_format import DamageError, SplitInfo, read_records

# Chunks of one window that are read at a time. More hides more latency (an NFS or object store
# answers in milliseconds); from the page cache anything from 2 to 16 is the same.
PARALLEL_READS = 8


class Payloads(Protocol):
    """Where the pipeline gets bytes from."""

    def read(self, chunks: Any, records: Any, wanted: Any) -> Any:
        """[m] string: the serialized records that are wanted, in that order.

        Args:
            chunks: [c] int64 chunk numbers, the window.
            records: [n] int64 record numbers of all records of these chunks, in order.
            wanted: [m] int64 in [0, n), indices into `records`.
        """


class FilePayloads:
    """Reads chunks from the shards each time.

    Args:
        paths: The shards of the split in order.
        chunks: What lies where in them.
    """

    def __init__(self, paths: list[Path], chunks: Chunks) -> None:
        # Eager tensors, which the graph captures: see Windows.
        self._paths = tf.constant([str(path) for path in paths])
        self._shard, self._offset = tf.constant(chunks.shard), tf.constant(chunks.offset)
        self._size, self._count = tf.constant(chunks.size), tf.constant(chunks.count)
        self._chunk_records = chunks.chunk_records

    def read(self, chunks: Any, records: Any, wanted: Any) -> Any:
        """See `Payloads.read`."""

        def read_chunk(chunk: Any) -> Any:
            dataset = tf.raw_ops.TFRecordDatasetV2(
                filenames=[self._paths[self._shard[chunk]]],
                compression_type="",
                buffer_size=self._size[chunk],  # one read for the chunk, and not a byte beyond it
                byte_offsets=[self._offset[chunk]],
            )
            spec = tf.TensorSpec([], tf.string)
            return tf.data.experimental.from_variant(dataset, spec).take(self._count[chunk])

        # In a deterministic interleave whose blocks are no shorter than its chunks, the elements
        # come chunk by chunk in order, while the next chunks are read.
        payloads = tf.data.Dataset.from_tensor_slices(chunks).interleave(
            read_chunk,
            cycle_length=PARALLEL_READS,
            block_length=self._chunk_records,
            num_parallel_calls=PARALLEL_READS,
            deterministic=True,
        )
        window = payloads.batch(tf.size(records, tf.int64)).get_single_element()
        return tf.gather(window, wanted)


@dataclasses.dataclass(frozen=True)
class MemoryPayloads:
    """Picks records out of one tensor.

    Attributes:
        serialized: [num_records] string.
    """

    serialized: Any

    def read(self, chunks: Any, records: Any, wanted: Any) -> Any:
        """See `Payloads.read`."""
        return tf.gather(self.serialized, tf.gather(records, wanted))


def load_payloads(paths: list[Path], split: SplitInfo) -> MemoryPayloads:
    """All records of a split in memory.

    Args:
        paths: The shards of the split in order.
        split: The split; has at least one record.

    Raises:
        DamageError: A shard cannot be read to its end, or holds another number of records.
    """
    records = tf.data.TFRecordDataset([str(path) for path in paths], buffer_size=4 << 20)
    try:
        serialized = next(iter(records.batch(split.records + 1)))
    except tf.errors.DataLossError as error:
        raise _damage(paths) from error
    found = int(tf.size(serialized))
    if found != split.records:
        raise DamageError(
            f"a split must have the records in its manifest ({split.records}), got {found} in "
            f"{paths[0].parent}. Run 'shardmill verify'."
        )
    return MemoryPayloads(serialized)


def _damage(paths: list[Path]) -> DamageError:
    """TensorFlow names neither file nor offset, so the shards are read again to find them."""
    for path in paths:
        try:
            for _ in read_records(path):
                pass
        except DamageError as error:
            return error
    return DamageError(
        f"a shard must be read to its end, got a read error in {paths[0].parent} that did not "
        "come again. Run 'shardmill verify'."
    )
