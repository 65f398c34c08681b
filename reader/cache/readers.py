"""Record readers of sets at a URL, of copies that are being made, and of leased files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from reader.cache.inventory import is_whole
from reader.cache.locations import missing, unreachable
from reader.records.readers import RecordReader
from shard_format import DamageError, ShardSetError, SplitInfo, storage, unframe_many
from shard_format.storage import Range, Url
from shard_format.wording import visible

Int64Array = npt.NDArray[np.int64]

_REQUEST_BYTES = 8 << 20  # 8 MiB: above that, two requests are faster than one


class _Run(NamedTuple):
    """Adjacent records in a shard: the places [first, end) of a list of records in order.

    Attributes:
        shard: Number of the shard.
        begin: First byte in it.
        size: Bytes.
        first: Place of the first record.
        end: One behind the place of the last.
    """

    shard: int
    begin: int
    size: int
    first: int
    end: int


class RemoteRecordReader:
    """Reads records of a set at a URL, each byte range from the copy of its shard if there is one.

    A window of an epoch is a call: its chunks are ranges, of which many are requested at a time,
    and the next window is read while this one is decoded. TensorFlow cannot read such places, so
    the graph calls Python once a window: about 1 us a record with the interpreter's lock, and such
    a data set cannot be sent to another process (tf.data service).

    Args:
        source: The set.
        split: Its shards.
        index: One row per record, with its offset and length.
        copies: The paths at which copies of the shards are, or will be; in the split's order.
    """

    def __init__(self, source: Url, split: SplitInfo, index: pa.Table, copies: list[Path]):
        self._source, self._shards, self._copies = source, split.shards, copies
        self._offset, self._length = index["offset"], index["length"]
        self._record_ids = index["record_id"]
        self._ends = np.cumsum([shard.records for shard in split.shards])
        self._bytes = np.array([shard.bytes for shard in split.shards], np.int64)

    def read(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read`."""
        serialized = tf.numpy_function(self.read_now, [numbers], tf.string)
        serialized.set_shape([None])
        return serialized

    def read_now(self, numbers: Int64Array) -> npt.NDArray[np.object_]:
        """[n] bytes: the serialized records of [n] int64 numbers.

        Raises:
            ShardSetError: A shard cannot be read.
            DamageError: A record does not match its checksum.
        """
        shards = np.searchsorted(self._ends, numbers, side="right")
        begins, lengths = _taken(self._offset, numbers), _taken(self._length, numbers)
        order = np.lexsort((begins, shards))
        shards, begins, lengths = shards[order], begins[order], lengths[order]
        # A wrong number must not become the size of a request.
        inside = (begins >= 0) & (lengths > 0) & (begins <= self._bytes[shards] - lengths)
        if not inside.all():
            first = int(np.argmin(inside))
            raise self._damage(int(shards[first]), int(numbers[order[first]]))
        serialized = np.empty(len(numbers), object)
        runs = list(_runs(shards, begins, begins + lengths))
        for run, data in zip(runs, self._read_runs(runs), strict=True):
            own = slice(run.first, run.end)
            payloads = unframe_many(data, begins[own] - run.begin, lengths[own])
            for place, payload in zip(order[own].tolist(), payloads, strict=True):
                if payload is None:
                    raise self._damage(run.shard, int(numbers[place]))
                serialized[place] = payload
        return serialized

    def _read_runs(self, runs: list[_Run]) -> Iterator[bytes]:
        copied = {number for number in {run.shard for run in runs} if self._is_copied(number)}
        requested = storage.read_many(
            Range(self._source / self._shards[run.shard].file, run.begin, run.size)
            for run in runs
            if run.shard not in copied
        )
        for run in runs:
            copy = self._copies[run.shard]
            try:
                yield (
                    storage.read_range(copy, run.begin, run.size)
                    if run.shard in copied
                    else next(requested)
                )
            except FileNotFoundError as error:
                raise ShardSetError(missing(str(error.filename))) from error
            except OSError as error:
                raise ShardSetError(unreachable(str(error.filename), error)) from error

    def _is_copied(self, shard: int) -> bool:
        return is_whole(self._copies[shard], self._shards[shard].bytes)

    def _damage(self, shard: int, number: int) -> DamageError:
        name = visible(self._record_ids[number].as_py())
        where = f"{self._source / self._shards[shard].file} at byte {self._offset[number]}"
        return DamageError(
            f"A record does not match its checksum or its index in {where} (record {name!r}). Run "
            "'shardmill verify': it names all that is damaged. If the set is intact, a cached copy "
            "is not: run 'shardmill cache --clear'."
        )


def _runs(shards: Int64Array, begins: Int64Array, ends: Int64Array) -> Iterator[_Run]:
    """What is read in one piece each, of records in order of their place."""
    apart = (shards[1:] != shards[:-1]) | (begins[1:] > ends[:-1])
    first = np.flatnonzero(np.concatenate([[True], apart]))
    # Long ones are cut between two records, about every _REQUEST_BYTES.
    of_run = np.cumsum(np.concatenate([[0], apart]))
    pieces = (begins - begins[first][of_run]) // _REQUEST_BYTES
    apart |= pieces[1:] != pieces[:-1]
    first = np.flatnonzero(np.concatenate([[True], apart]))
    behind = np.append(first[1:], len(begins))
    sizes = ends[behind - 1] - begins[first]
    columns = (shards[first], begins[first], sizes, first, behind)
    for values in zip(*(column.tolist() for column in columns), strict=True):
        yield _Run(*values)


def _taken(column: pa.ChunkedArray, rows: Int64Array) -> Int64Array:
    """[len(rows)] int64: the values of a column at these rows."""
    return np.asarray(pc.take(column, pa.array(rows)).to_numpy(), np.int64)


# To TensorFlow, a path with one of these is a pattern.
_PATTERN = ("\\", "*", "?", "[", "]")


class LeasedRecords:
    """Reads records, and keeps something alive as long as anybody may read them, such as a lease.

    A data set holds its functions, and with them this object.

    Args:
        record_reader: Reads the records.
        kept: Must not end before.
    """

    def __init__(self, record_reader: RecordReader, *kept: object) -> None:
        self._payloads, self._kept = record_reader, kept

    def read(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read`."""
        return self._payloads.read(numbers)


class CopiedRecordReader:
    """Reads a split from its source until all its copies are made.

    Which of the two is found out in the graph, window by window: a copy under its final name is
    whole. That takes a look at every copy, some microseconds each.

    Args:
        source: Reads the split from its source.
        copied: Reads the copies, and what is not copied from its source.
        paths: Of the copies.
    """

    def __init__(self, source: RecordReader, copied: RecordReader, paths: list[Path]) -> None:
        self._source, self._copied = source, copied
        self._paths = tf.constant([_literally(path) for path in paths])

    def read(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read`."""
        found = tf.size(tf.io.matching_files(self._paths))
        return tf.cond(
            found == tf.size(self._paths),
            lambda: self._copied.read(numbers),
            lambda: self._source.read(numbers),
        )


def _literally(path: Path) -> str:
    """A pattern that only this path matches."""
    return "".join(f"\\{char}" if char in _PATTERN else char for char in str(path))
