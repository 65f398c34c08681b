"""Records by their byte ranges, each checked here: what is damaged is named, or skipped.

A window of an epoch is a call: its chunks are ranges, of which many are requested at a time, and
the next window is read while this one is decoded. About 1 us a record is Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
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
from shard_format import FRAME_BYTES, DamageError, ShardSetError, SplitInfo, unframe, whole_frames
from shard_format.example_parser import Examples
from shard_format.shard_list import shard_numbers
from shard_format.tfrecord import FOOTER_BYTES, HEADER_BYTES

Int64Array = npt.NDArray[np.int64]

_REQUEST_BYTES = 8 << 20  # 8 MiB: above that, two requests are faster than one
_SEARCHED = 256  # records that are read at a time to find one that is whole
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
        self._filler: tuple[int, Examples] | None = None

    @override
    def read(self, numbers: Int64Array) -> Examples:
        """The serialized records of these numbers, in their order.

        Raises:
            ShardSetError: A shard cannot be read.
            DamageError: A record or its row of the index is damaged.
        """
        examples, whole = self._read(numbers, skipping=False)
        for place in np.flatnonzero(~whole):
            raise DamageError(f"{self._problem(int(numbers[place]))} {self._advice}")
        return examples

    @override
    def read_skipping(self, numbers: Int64Array) -> tuple[Examples, Int64Array]:
        """The records that can be read, and another one in place of each that cannot.

        Returns:
            The records, and the [n] int64 numbers of the records that these are.

        Raises:
            ShardSetError: A shard exists and cannot be read.
            DamageError: No record of the split can be read.
        """
        examples, whole = self._read(numbers, skipping=True)
        sources, lost = numbers.copy(), np.flatnonzero(~whole)
        for number in numbers[lost].tolist():
            self._skipped.add(number, self._problem(number))
        if len(lost):
            sources[lost], filler = self._whole_record()
            examples = examples.replaced(lost, [bytes(filler[0])] * len(lost))
        return examples, sources

    @override
    def place_of(self, number: int) -> str:
        shard = int(np.searchsorted(self._ends, number, side="right"))
        offset, _ = self._location(number)
        return f"{self._file(shard)} at byte {offset} (record {self._record_id(number)!r})"

    def _read(
        self, numbers: Int64Array, *, skipping: bool
    ) -> tuple[Examples, npt.NDArray[np.bool_]]:
        """The records in order, and [n] bool whether each is what the index says."""
        shards = np.searchsorted(self._ends, numbers, side="right")
        begins, lengths = self._index.take(LOCATION_COLUMNS, numbers)
        # A wrong number must not become the size of a request.
        inside = (begins >= 0) & (lengths > 0) & (begins <= self._bytes[shards] - lengths)
        order = np.lexsort((begins, shards))
        order = order[inside[order]]
        runs = list(_runs(shards[order], begins[order], (begins + lengths)[order]))
        splits = np.concatenate([[0], np.cumsum([run.size for run in runs], dtype=np.int64)])
        data = np.empty(splits[-1], np.uint8)
        parts = [data[begin:end].data for begin, end in itertools.pairwise(splits.tolist())]
        far = isinstance(self._source, Url)  # where asking whether it was replaced is a request
        copied = {shard for shard in {run.shard for run in runs} if self._is_copied(shard)}
        places, ends = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
        read_runs: set[int] = set()
        try:
            for run, base, size in zip(
                runs, splits.tolist(), self._read_runs(runs, parts, copied, skipping), strict=False
            ):
                own = order[run.first : run.end]
                places[own] = begins[own] - run.begin + base
                ends[own] = base + size
                if size and (far or run.shard in copied):
                    read_runs.add(run.shard)
        except ShardSetError:
            self._require_same_set()
            raise
        whole = inside & (places + lengths <= ends)
        whole[whole] = whole_frames(data, places[whole], lengths[whole])
        examples = Examples(data, places + HEADER_BYTES, places + lengths - FOOTER_BYTES)
        again = np.flatnonzero(inside & ~whole & np.isin(shards, list(read_runs)))
        restored = [self._read_again(number) for number in numbers[again].tolist()]
        good = [place for place, one in zip(again.tolist(), restored, strict=True) if one]
        examples = examples.replaced(np.array(good, np.int64), [one for one in restored if one])
        whole[good] = True
        if not whole.all() or not (far or all(run.shard in copied for run in runs)):
            self._require_same_set()
        return examples, whole

    def _require_same_set(self) -> None:
        if self._opened is not None:
            self._opened.check()

    def _read_runs(
        self, runs: list[_ByteRun], parts: list[memoryview], copied: set[int], skipping: bool
    ) -> Iterator[int]:
        """Reads each run into its part of a buffer; of shards that are copied, from the copy.

        Yields:
            The bytes of each run, fewer than its size where a shard ends before; 0 of a missing
            shard.
        """
        shards = {run.shard for run in runs}
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
        near = _read_near(
            [(run, part) for run, part in zip(runs, parts, strict=True) if run.shard in local],
            local,
        )
        for run, part in zip(runs, parts, strict=True):
            try:
                if run.shard in lost:
                    yield 0
                elif run.shard in local:
                    yield next(near)
                else:
                    data = next(requested)
                    part[: len(data)] = data
                    yield len(data)
            except FileNotFoundError as error:
                raise ShardSetError(missing(str(error.filename))) from error
            except OSError as error:
                raise ShardSetError(unreachable(str(error.filename), error)) from error

    def _read_again(self, number: int) -> bytes | None:
        """Reads one record from the set; None if it is damaged there."""
        try:
            return unframe(self._framed(number), number)
        except (DamageError, OSError):
            return None

    def _whole_record(self) -> tuple[int, Examples]:
        """The first record of the split that can be read; for all that cannot, so kept."""
        if self._filler is None:
            for begin in range(0, int(self._ends[-1]), _SEARCHED):
                numbers = np.arange(begin, min(begin + _SEARCHED, int(self._ends[-1])))
                examples, readable = self._read(numbers, skipping=True)
                if readable.any():
                    first = int(np.argmax(readable))
                    self._filler = int(numbers[first]), examples.take(np.array([first]))
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
        where = self.place_of(number)
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
        return bool(self._copies) and is_whole(self._copies[shard], int(self._bytes[shard]))

    def _record_id(self, number: int) -> str:
        """For people."""
        # Of a damaged index, offsets of strings may point anywhere in memory.
        try:
            ids, row = self._index.ids(number)
            ids.validate(full=True)
            return visible(ids[row].as_py())
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return f"number {number}"


def _read_near(runs: list[tuple[_ByteRun, memoryview]], paths: dict[int, Path]) -> Iterator[int]:
    """Reads each run of local files by shard; yields its bytes, fewer where a file ends before."""
    place = {shard: number for number, shard in enumerate(paths)}
    files = OpenFiles(list(paths.values()), _OPEN_FILES)
    for number, (run, part) in enumerate(runs):
        if number % _EXPECTED == 0:  # of these the first is awaited, the others come meanwhile
            for next_one, _ in runs[number : number + _EXPECTED]:
                files.expect(place[next_one.shard], next_one.begin, next_one.size)
        try:
            size = files.read_into(place[run.shard], run.begin, part)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(paths[run.shard])) from error
        yield size


def _runs(shards: Int64Array, begins: Int64Array, ends: Int64Array) -> Iterator[_ByteRun]:
    """What is read in one piece each, of records in order of their place."""
    if not len(shards):
        return
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
