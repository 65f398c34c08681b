"""Records by their byte ranges, each checked here: what is damaged is named, or skipped.

TensorFlow cannot read sets at a URL, and neither name nor pass over what is damaged. Of local sets
it opens a file anew for every range, in a data set of its own: 106 us of CPU for a single record of
28 kB, where this takes 29; for chunks of 64 records both take 20 us a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from typing_extensions import override

from foundation import storage
from foundation.storage import Place, Range, Url
from foundation.wording import visible
from reader.access.open_files import OpenFiles
from reader.cache.inventory import is_whole
from reader.cache.locations import missing, unreachable
from reader.damage import SkippedRecords
from reader.opened_set import OpenedSet
from reader.records.readers import LOCATION_COLUMNS, RecordReader
from reader.records.split_index import SplitIndex
from shard_format import FRAME_BYTES, DamageError, ShardSetError, SplitInfo, unframe, unframe_many
from shard_format.shard_list import shard_numbers

Int64Array = npt.NDArray[np.int64]
Payloads = npt.NDArray[np.object_]

_REQUEST_BYTES = 8 << 20  # 8 MiB: above that, two requests are faster than one
_SEARCHED = 256  # records that are read at a time to find one that is whole
# Of local files: what one call of Python reads.
_PIECE_BYTES, _PIECE_RECORDS = 8 << 20, 2048
_OPEN_FILES = 64  # in a call
_EXPECTED = 64  # ranges that the system fetches ahead, from a disk or NFS many at a time


class _ByteRun(NamedTuple):
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


class CheckedRecordReader(RecordReader):
    """Reads records of a set, each byte range from the copy of its shard if there is one.

    A window of an epoch is a call: its chunks are ranges, of which many are requested at a time,
    and the next window is read while this one is decoded. The graph calls Python once a window:
    about 1 us a record with the interpreter's lock, and such a data set cannot be sent to another
    process (tf.data service).

    A record that is damaged in a copy, or came damaged from a URL, is read from the set again.

    Args:
        source: The set.
        split: Its shards.
        index: One row per record, with its offset and length.
        where: The index file, for messages.
        copies: The paths at which copies of the shards are, or will be; in the split's order.
            May be empty.
        skipped: Counts the records that `read_skipping` passes over.
        advice: What to do about damage; by default that of a set.
        opened: The set, to be checked for whether it was replaced; None of a cache.
    """

    def __init__(
        self,
        source: Place,
        split: SplitInfo,
        index: SplitIndex,
        where: Place,
        copies: Sequence[Path],
        skipped: SkippedRecords,
        advice: str = "",
        opened: OpenedSet | None = None,
    ) -> None:
        self._advice = advice or (
            f"Run 'shardmill verify {source}': it names all that is damaged. "
            'on_corrupt="skip" (--on-corrupt skip) reads all others.'
        )
        self._source, self._shards, self._copies = source, split.shards, copies
        self._index, self._where = index, where
        self._skipped, self._opened = skipped, opened
        self._ends = np.cumsum(shard_numbers(split.shards, "records"))
        self._bytes = shard_numbers(split.shards, "bytes")
        mean_bytes = max(1, split.bytes // max(1, split.records))
        self._piece_records = min(_PIECE_RECORDS, max(1, _PIECE_BYTES // mean_bytes))
        self._filler: tuple[int, bytes] | None = None

    @override
    def read(self, numbers: Any) -> Any:
        # Without a state: with one, a data set that has to be deterministic would be sequential.
        return self._in_pieces(self.read_now, numbers, tf.string)

    @override
    def read_skipping(self, numbers: Any) -> Any:
        return self._in_pieces(self.read_skipping_now, numbers, (tf.string, tf.int64))

    def _in_pieces(self, read: Callable[[Int64Array], Any], numbers: Any, types: Any) -> Any:
        """What a function of [n] int64 numbers gives, called for some of them at a time.

        TensorFlow copies what Python returns, so all of a window would be in memory twice. From a
        URL it is: fewer requests in flight would cost more.
        """

        def call(piece: Any) -> Any:
            tensors = tf.numpy_function(read, [piece], types, stateful=False)
            for one in tf.nest.flatten(tensors):
                one.set_shape([None])
            return tensors if types is tf.string else tuple(tensors)

        if isinstance(self._source, Url):
            return call(numbers)
        pieces = tf.data.Dataset.from_tensors(numbers).unbatch().batch(self._piece_records)
        # One after the other: calls at the same time would hand the interpreter's lock to and fro.
        parts = pieces.map(call).unbatch()
        return parts.batch(tf.size(numbers, tf.int64)).get_single_element()

    def read_now(self, numbers: Int64Array) -> Payloads:
        """[n] bytes: the serialized records of [n] int64 numbers.

        Raises:
            ShardSetError: A shard cannot be read.
            DamageError: A record or its row of the index is damaged.
        """
        serialized = self._found(numbers, skipping=False)
        for place in np.flatnonzero(serialized == None):  # noqa: E711
            raise DamageError(f"{self._problem(int(numbers[place]))} {self._advice}")
        return serialized

    def read_skipping_now(self, numbers: Int64Array) -> tuple[Payloads, Int64Array]:
        """The records that can be read, and another one in place of each that cannot.

        Returns:
            [n] bytes, and the [n] int64 numbers of the records that these are.

        Raises:
            ShardSetError: A shard exists and cannot be read.
            DamageError: No record of the split can be read.
        """
        serialized, sources = self._found(numbers, skipping=True), numbers.copy()
        for place in np.flatnonzero(serialized == None):  # noqa: E711
            number = int(numbers[place])
            self._skipped.add(number, self._problem(number))
            sources[place], serialized[place] = self._whole_record()
        return serialized, sources

    def _found(self, numbers: Int64Array, *, skipping: bool) -> Payloads:
        """[n] bytes, None where a record is not what the index says."""
        serialized = np.full(len(numbers), None, object)
        shards = np.searchsorted(self._ends, numbers, side="right")
        begins, lengths = self._index.take(LOCATION_COLUMNS, numbers)
        # A wrong number must not become the size of a request.
        inside = (begins >= 0) & (lengths > 0) & (begins <= self._bytes[shards] - lengths)
        order = np.lexsort((begins, shards))
        order = order[inside[order]]
        if not len(order):
            return serialized
        shards, begins, lengths = shards[order], begins[order], lengths[order]
        runs = list(_runs(shards, begins, begins + lengths))
        far = isinstance(self._source, Url)  # there, each look at a file is a request
        try:
            for run, data in zip(runs, self._read_runs(runs, skipping), strict=True):
                own = slice(run.first, run.end)
                payloads = unframe_many(data, begins[own] - run.begin, lengths[own])
                for place, payload in zip(order[own].tolist(), payloads, strict=True):
                    if payload is None and data and (far or self._is_copied(run.shard)):
                        payload = self._read_again(int(numbers[place]))
                    serialized[place] = payload
        except ShardSetError:
            self._require_same_set()
            raise
        if any(payload is None for payload in serialized) or (
            not far and not all(map(self._is_copied, {run.shard for run in runs}))
        ):
            self._require_same_set()
        return serialized

    def _require_same_set(self) -> None:
        if self._opened is not None:
            self._opened.check()

    def _read_runs(self, runs: list[_ByteRun], skipping: bool) -> Iterator[bytes]:
        """The bytes of each run, fewer where a shard ends before; of a missing shard none."""
        shards = {run.shard for run in runs}
        copied = {number for number in shards if self._is_copied(number)}
        lost: set[int] = set()
        if skipping:  # a request for a missing file would end all others
            lost = {number for number in shards - copied if not self._exists(number)}
        local, source = {number: self._copies[number] for number in copied}, self._source
        requested: Iterator[bytes] = iter(())
        if isinstance(source, Url):
            far = [run for run in runs if run.shard not in copied | lost]
            requested = storage.read_many(
                Range(source / self._shards[run.shard].file, run.begin, run.size) for run in far
            )
        else:
            local |= {shard: source / self._shards[shard].file for shard in shards - copied - lost}
        near = _read_near([run for run in runs if run.shard in local], local)
        for run in runs:
            try:
                if run.shard in lost:
                    yield b""
                else:
                    yield next(near if run.shard in local else requested)
            except FileNotFoundError as error:
                raise ShardSetError(missing(str(error.filename))) from error
            except OSError as error:
                raise ShardSetError(unreachable(str(error.filename), error)) from error

    def _read_again(self, number: int) -> bytes | None:
        """Reads one record from the set; None if it is damaged there."""
        try:
            _, length = self._location(number)
            lengths = np.array([length], np.int64)
            (payload,) = unframe_many(self._framed(number), np.zeros(1, np.int64), lengths)
        except OSError:
            return None
        return payload

    def _whole_record(self) -> tuple[int, bytes]:
        """The first record of the split that can be read; for all that cannot, so kept."""
        if self._filler is None:
            for begin in range(0, int(self._ends[-1]), _SEARCHED):
                numbers = np.arange(begin, min(begin + _SEARCHED, int(self._ends[-1])))
                serialized = self._found(numbers, skipping=True)
                whole = np.flatnonzero(serialized != None)  # noqa: E711
                if len(whole):
                    self._filler = int(numbers[whole[0]]), serialized[whole[0]]
                    return self._filler
            raise DamageError(
                f"No record of the split can be read in {self._source}. Run 'shardmill verify "
                f"{self._source}', and copy the set again, or build it again."
            )
        return self._filler

    def _problem(self, number: int) -> str:
        """Which record is damaged, and how, in a sentence."""
        shard = int(np.searchsorted(self._ends, number, side="right"))
        offset, length = self._location(number)
        where = f"{self._file(shard)} at byte {offset} (record {self._record_id(number)!r})"
        if offset < 0 or length < FRAME_BYTES or offset > self._bytes[shard] - length:
            return (
                f"The index {self._where} is damaged: its row {number} is for bytes "
                f"[{offset}, {offset + length}) of the {self._bytes[shard]} bytes of {where}."
            )
        try:
            framed = self._framed(number)
            if len(framed) < length:
                return f"The file ends inside a record of {length} bytes in {where}."
            unframe(framed, where)
        except FileNotFoundError:
            return f"No shard file {where}."
        except DamageError as error:
            problem = str(error)
            return f"{problem[0].upper()}{problem[1:]}."
        return f"A record did not match its checksum when it was first read, in {where}."

    def _framed(self, number: int) -> bytes:
        shard = int(np.searchsorted(self._ends, number, side="right"))
        return storage.read_range(self._file(shard), *self._location(number))

    def _location(self, number: int) -> tuple[int, int]:
        """Offset and length of a record."""
        (offset,), (length,) = self._index.take(LOCATION_COLUMNS, np.array([number], np.int64))
        return int(offset), int(length)

    def _file(self, shard: int) -> Place:
        return self._source / self._shards[shard].file

    def _exists(self, shard: int) -> bool:
        try:
            return storage.stat(self._file(shard)) is not None
        except OSError as error:
            raise ShardSetError(unreachable(str(self._file(shard)), error)) from error

    def _is_copied(self, shard: int) -> bool:
        return bool(self._copies) and is_whole(self._copies[shard], self._shards[shard].bytes)

    def _record_id(self, number: int) -> str:
        """For people."""
        # Of a damaged index, offsets of strings may point anywhere in memory.
        try:
            ids, row = self._index.ids(number)
            ids.validate(full=True)
            return visible(ids[row].as_py())
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return f"number {number}"


def _read_near(runs: list[_ByteRun], paths: dict[int, Path]) -> Iterator[bytes]:
    """The bytes of each run, of local files by shard; fewer where a file ends before."""
    place = {shard: number for number, shard in enumerate(paths)}
    files = OpenFiles(list(paths.values()), _OPEN_FILES)
    for number, run in enumerate(runs):
        if number % _EXPECTED == 0:  # of these the first is awaited, the others come meanwhile
            for next_one in runs[number : number + _EXPECTED]:
                files.expect(place[next_one.shard], next_one.begin, next_one.size)
        try:
            data = files.read(place[run.shard], run.begin, run.size)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(paths[run.shard])) from error
        yield data


def _runs(shards: Int64Array, begins: Int64Array, ends: Int64Array) -> Iterator[_ByteRun]:
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
        yield _ByteRun(*values)
