"""The windows of an epoch, and the records of each: what is read and parsed at a time."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from reader.options import ReadOptions
from reader.order import numpy_order
from reader.order.buckets import Lookup, bucket_order
from reader.order.geometry import WorkerShard
from reader.order.numpy_order import Int64Array, UInt64Array
from reader.order.sampling import Sampler
from reader.records.readers import RecordReader
from shard_format import DamageError, Feature
from shard_format.example_parser import (
    ByteValues,
    Column,
    NumberLists,
    UnreadableExampleError,
    parse_examples,
)

# This bit distinguishes draws of a sampler from record numbers: a record that is drawn twice in an
# epoch must not be augmented alike.
DRAWN = 1 << 62
# The weight of what is in place of a damaged record.
LOST = -1.0
_KEPT_WINDOWS = 4  # whose order is kept, 64 kB each


class Task(NamedTuple):
    """A part of a window to read.

    Attributes:
        epoch: Number of the epoch.
        window: Number of the window in it.
        residue: The worker reads the positions p of the epoch with p % n == residue.
        skip: Number of records to skip at the start of the window.
        take: Number of records to read after that.
        real: 1; or 0 where they only fill up a batch.
    """

    epoch: int
    window: int
    residue: int
    skip: int
    take: int
    real: int = 1


@dataclasses.dataclass(frozen=True)
class WindowRows:
    """Records in the order of an epoch, parsed.

    Attributes:
        columns: Values of [n] records by the name of the feature.
        keys: [n] uint64, from which the random numbers of each are drawn.
        weights: [n] float32, 1, or 0 where a record only fills up a batch; `LOST` where another
            record is in place of a damaged one, which is skipped.
        numbers: [n] int64, the numbers of the records.
        record_reader: Knows where a record is, for messages.
    """

    columns: Mapping[str, Column]
    keys: UInt64Array
    weights: npt.NDArray[np.float32]
    numbers: Int64Array
    record_reader: RecordReader

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, begin: int, end: int) -> WindowRows:
        """The rows [begin, end)."""
        own = slice(begin, end)
        columns = {name: column.take(own) for name, column in self.columns.items()}
        return WindowRows(
            columns, self.keys[own], self.weights[own], self.numbers[own], self.record_reader
        )

    def byte_values(self, name: str) -> ByteValues:
        """Where the bytes of a feature are."""
        return cast(ByteValues, self.columns[name])

    def numbers_of(self, name: str) -> NumberLists:
        """The numbers of a feature."""
        return cast(NumberLists, self.columns[name])

    def random(self, count: int) -> npt.NDArray[np.float32]:
        """[n, count] float32 in [0, 1): the random numbers of these records in this epoch."""
        return numpy_order.numbered(self.keys[:, None], np.arange(count))

    def where(self, row: int) -> str:
        """Where a record is, for messages."""
        return self.record_reader.place_of(int(self.numbers[row]))


@dataclasses.dataclass(frozen=True)
class Windows:
    """A split as windows, each a pure function of its task.

    Attributes:
        worker_shard: The part of the split to read.
        record_reader: Reads the serialized records.
        features: Those to parse.
        options: Order, seed and batches.
        lengths: Groups records of similar length, where the options ask for it.
        sampler: Draws records by class or by weight, or None.
        selection: [n] int64, the records that are read; their places here are what an epoch orders.
            None for all.
        first_records: The first window of a stream is read in parts, of that many records, as many
            again, then twice as many each time: a batch need not wait for a whole window. None
            reads it in one.
        ahead: Windows that are read while one is decoded; each may hold geometry.WINDOW_BYTES.
        kept: What must live as long as records may be read, such as leases.
    """

    worker_shard: WorkerShard
    record_reader: RecordReader
    features: tuple[Feature, ...]
    options: ReadOptions
    lengths: Lookup | None = None
    sampler: Sampler | None = None
    selection: Int64Array | None = None
    first_records: int | None = None
    ahead: int = 1
    kept: tuple[object, ...] = ()

    def from_position(self, epoch: int, position: int, last: int | None) -> Iterator[Task]:
        """The tasks from a position of an epoch on, up to the epoch `last` or without end."""
        epochs = itertools.count(epoch) if last is None else range(epoch, last)
        tasks = (
            task
            for number in epochs
            for task in self.of_epoch(number, position if number == epoch else 0)
        )
        return self.starting_small(tasks)

    def starting_small(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """The same records in the same order, those of the first task in parts; see the class."""
        tasks = iter(tasks)
        if self.first_records is not None:
            for task in itertools.islice(tasks, 1):
                begin, end = 0, self.first_records
                while begin < task.take:
                    take = min(end, task.take) - begin
                    yield task._replace(skip=task.skip + begin, take=take)
                    begin, end = end, 2 * end
        yield from tasks

    def of_epoch(self, epoch: int, position: int, stop: int | None = None) -> Iterator[Task]:
        """The tasks of an epoch from a position on, in order.

        Args:
            epoch: Number of the epoch.
            position: A multiple of the workers; not behind the last record.
            stop: A multiple of the batch size; tasks end there where it is not behind the last
                record. None reads to the end.
        """
        share = self.worker_shard
        last = min(share.geometry.records, share.emitted)
        yield from self._tasks(
            epoch, position, share.worker, last if stop is None else min(last, stop)
        )
        if stop is None or stop > last:  # what fills up belongs to the last batch
            for window, residue, take in share.filling():
                yield Task(epoch, window, residue, 0, take, 0)

    def endless(self, epoch: int, position: int) -> Iterator[Task]:
        """The tasks of all epochs from one on, one after the other, as if they were one.

        An epoch then need not begin with a batch, nor with the same worker; nothing is dropped or
        filled up.

        Args:
            epoch: The first one.
            position: In it, below its records.
        """
        share = self.worker_shard
        records = share.geometry.records

        def tasks() -> Iterator[Task]:
            for number in itertools.count(epoch):
                residue = (share.worker - number * records) % share.workers
                start = position if number == epoch else 0
                yield from self._tasks(number, start, residue, records)

        return self.starting_small(tasks())

    def _tasks(self, epoch: int, start: int, residue: int, stop: int) -> Iterator[Task]:
        """The tasks of the positions from `start` to `stop` of an epoch; none is empty."""
        workers, size = self.worker_shard.workers, self.worker_shard.geometry.window_records

        def own(positions: int) -> int:  # how many of the first positions have this residue
            return max(positions - residue + workers - 1, 0) // workers

        for window in range(start // size, -(-stop // size)):
            base = window * size
            begin, end = own(max(base, start)), own(min(base + size, stop))
            if end > begin:
                yield Task(epoch, window, residue, begin - own(base), end - begin)

    def read(self, task: Task) -> WindowRows:
        """The records of one task.

        Raises:
            ShardSetError: A shard cannot be read.
            DamageError: A record is damaged.
        """
        numbers, positions = self._ordered(task.epoch, task.window, task.residue)
        own = slice(task.skip, task.skip + task.take)
        numbers = numbers[own]
        if self.selection is not None:
            numbers = self.selection[numbers]
        draws = numbers if self.sampler is None else positions[own] + DRAWN
        weights = np.full(len(numbers), task.real, np.float32)
        if self.options.on_corrupt == "skip":
            examples, sources = self.record_reader.read_skipping(numbers)
            weights[sources != numbers] = LOST
            numbers = sources
        else:
            examples = self.record_reader.read(numbers)
        try:
            columns = parse_examples(examples, self.features)
        except UnreadableExampleError as error:
            where = self.record_reader.place_of(int(numbers[error.number]))
            raise DamageError(f"Damaged record in {where}: {error}") from error
        keys = numpy_order.augment_keys(draws, self.options.seed, task.epoch)
        return WindowRows(columns, keys, weights, numbers, self.record_reader)

    @functools.cached_property
    def _ordered(self) -> Callable[[int, int, int], tuple[Int64Array, Int64Array]]:
        # Parts of a window are read after each other, and its order takes milliseconds.
        return functools.lru_cache(_KEPT_WINDOWS)(self._order)

    def _order(self, epoch: int, window: int, residue: int) -> tuple[Int64Array, Int64Array]:
        """([m] record numbers, [m] positions that a sampler drew) of a whole window, in order."""
        geometry, options = self.worker_shard.geometry, self.options
        share, seed = (residue, self.worker_shard.workers), options.seed
        if self.sampler is not None:
            positions, _ = numpy_order.window_order(geometry, window, share, seed, epoch, "off")
            return self.sampler.numbers(positions, epoch), positions
        if self.lengths is not None:
            numbers, wanted = bucket_order(
                geometry,
                self.lengths,
                window,
                share,
                options.batch_size,
                options.buckets,
                seed,
                epoch,
            )
        else:
            numbers, wanted = numpy_order.window_order(
                geometry, window, share, seed, epoch, options.shuffle
            )
        return numbers[wanted], numbers[wanted]
