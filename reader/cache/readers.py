"""Record readers of sets at a URL, of copies that are being made, and of leased files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from reader.cache.inventory import is_whole
from reader.cache.origins import DirectoryOrigin, Origin, RandomFile, unreachable
from reader.cache.retrying import retried
from reader.records.readers import RecordReader
from shard_format import ShardSetError, SplitInfo, unframe

Int64Array = npt.NDArray[np.int64]

# Requests that are under way at a time: an object store answers each in 10 to 100 ms.
PARALLEL_REQUESTS = 16
_REQUEST_BYTES = 8 << 20  # 8 MiB: above that, two requests are faster than one


class _Run(NamedTuple):
    """Adjacent records in a shard: [first, last] of a list of records."""

    shard: int
    begin: int
    end: int
    first: int
    last: int


class RemoteRecordReader:
    """Reads records with PyArrow, from the copy of a shard where there is one.

    The graph calls Python for it, once a window. So such a data set cannot be sent to another
    process (tf.data service), and unframing holds Python's lock: about 5 us a record.

    Args:
        origin: Where the set is read from.
        split: Its shards.
        index: One row per record, with its offset and length.
        copies: The paths at which copies of the shards are, or will be; in the split's order.
    """

    def __init__(self, origin: Origin, split: SplitInfo, index: pa.Table, copies: list[Path]):
        self._origin, self._shards, self._copies = origin, split.shards, copies
        self._offset, self._length = index["offset"], index["length"]
        self._ends = np.cumsum([shard.records for shard in split.shards])
        self._pool = ThreadPoolExecutor(PARALLEL_REQUESTS, thread_name_prefix="shardmill-read")
        self._files: dict[int, RandomFile] = {}
        self._lock = threading.Lock()

    def read(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read`."""
        serialized = tf.numpy_function(self.read_now, [numbers], tf.string)
        serialized.set_shape([None])
        return serialized

    def read_now(self, numbers: Int64Array) -> npt.NDArray[np.object_]:
        """[n] bytes: the serialized records of [n] int64 numbers.

        Raises:
            ShardSetError: A shard cannot be read, several times.
            DamageError: A record does not match its checksum.
        """
        shards = np.searchsorted(self._ends, numbers, side="right")
        begins = _taken(self._offset, numbers)
        ends = begins + _taken(self._length, numbers)
        order = np.lexsort((begins, shards))
        runs = _runs(shards[order], begins[order], ends[order])
        serialized = np.empty(len(numbers), object)
        for run, data in zip(runs, self._pool.map(self._read_run, runs), strict=True):
            shown = self._origin.name(self._shards[run.shard].file)
            for place in order[run.first : run.last + 1]:
                begin, end = int(begins[place]), int(ends[place])
                where = f"{shown} at byte {begin}"
                serialized[place] = unframe(data[begin - run.begin : end - run.begin], where)
        return serialized

    def _read_run(self, run: _Run) -> bytes:
        try:
            return retried(
                lambda: self._file(run.shard).read_at(run.end - run.begin, run.begin),
                (OSError,),
                lambda: self._forget(run.shard),
            )
        except OSError as error:
            name = self._origin.name(self._shards[run.shard].file)
            raise ShardSetError(unreachable(name, error)) from error

    def _forget(self, shard: int) -> None:
        with self._lock:
            self._files.pop(shard, None)

    def _file(self, shard: int) -> RandomFile:
        copy = self._copies[shard]
        if is_whole(copy, self._shards[shard].bytes):
            return DirectoryOrigin(copy.parent).open_random(copy.name)
        with self._lock:
            if shard not in self._files:
                self._files[shard] = self._origin.open_random(self._shards[shard].file)
            return self._files[shard]


def _runs(shards: Int64Array, begins: Int64Array, ends: Int64Array) -> list[_Run]:
    """What is read in one piece each, of records in order of their place."""

    def cut() -> Iterator[int]:
        start = 0
        for place in range(1, len(begins)):
            apart = shards[place] != shards[start] or begins[place] > ends[place - 1]
            if apart or ends[place] - begins[start] > _REQUEST_BYTES:
                start = place
                yield place

    first = [0, *cut()]
    last = [place - 1 for place in first[1:]] + [len(begins) - 1]
    return [
        _Run(int(shards[a]), int(begins[a]), int(ends[b]), a, b)
        for a, b in zip(first, last, strict=True)
    ]


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
