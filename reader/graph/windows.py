"""The windows of an epoch and the records of each, in TensorFlow operations."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from reader.graph import order as graph_order
from reader.graph.columns import GraphColumns
from reader.graph.readers import GraphRecordReader
from reader.graph.sampling import CalledSampler, GraphSampler
from reader.options import ReadOptions
from reader.order.geometry import WorkerShard
from reader.windows import DRAWN, LOST, Task


class WindowPart(NamedTuple):
    """Records of a window in the order of the epoch.

    Attributes:
        serialized: [m] string tf.train.Examples.
        draws: [m] int64, the seeds of their random numbers within an epoch.
        weights: [m] float32, 1, or 0 where a record only fills up a batch; `LOST` where another
            record is in place of a damaged one, which is skipped.
        sizes: [m, 2] int32, height and width of images, or None where they are not asked for.
    """

    serialized: Any
    draws: Any
    weights: Any
    sizes: Any = None


class Lengths:
    """[n] int64 lengths of [n] int64 record numbers.

    Args:
        index: Index of the split, with that column.
        column: Its column with the lengths.
        limit: Longer ones count as that long.
        selection: [n] int64, the records that numbers are places of; None where they are numbers
            of the split.
    """

    def __init__(
        self, index: GraphColumns, column: str, limit: int | None, selection: Any = None
    ) -> None:
        self._index, self._column, self._limit = index, column, limit
        self._selection = selection

    def __call__(self, numbers: Any) -> Any:
        """[n] int64."""
        if self._selection is not None:
            numbers = tf.gather(self._selection, numbers)
        lengths = self._index.column(self._column, numbers)
        return lengths if self._limit is None else tf.minimum(lengths, self._limit)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """[n, 2] int32 heights and widths of [n] int64 record numbers.

    Attributes:
        index: The index of the split, with the columns `COLUMNS`.
    """

    COLUMNS: ClassVar[tuple[str, str]] = ("height", "width")
    index: GraphColumns

    def __call__(self, numbers: Any) -> Any:
        """[n, 2] int32."""
        sides = [self.index.column(name, numbers) for name in self.COLUMNS]
        return tf.cast(tf.stack(sides, axis=1), tf.int32)


@dataclasses.dataclass(frozen=True)
class GraphWindows:
    """A split as windows, each a pure function of its task.

    Attributes:
        worker_shard: The part of the split to read.
        record_reader: Reads the serialized records.
        options: Order, seed and batches.
        lengths: Groups records of similar length, where the options ask for it.
        sampler: Draws records by class or by weight, or None.
        selection: [n] int64, the records that are read; None for all.
        sizes: Sizes of the images, where they are needed and the index has them.
        first_records: The first window of a stream is read in parts, of that many records, as many
            again, then twice as many each time: a batch need not wait for a whole window. None
            reads it in one.
        ahead: Windows that are read while one is decoded; each may hold geometry.WINDOW_BYTES.
        portable: Reader of the same records in graphs that are sent to other processes, or None.
        kept: What must live as long as records may be read, such as leases. A data set holds its
            functions, and with them this object.
    """

    worker_shard: WorkerShard
    record_reader: GraphRecordReader
    options: ReadOptions
    lengths: Lengths | None = None
    sampler: GraphSampler | CalledSampler | None = None
    selection: Any = None
    sizes: Sizes | None = None
    first_records: int | None = None
    ahead: int = 1
    portable: GraphRecordReader | None = None
    kept: tuple[object, ...] = ()

    def starting_small(self, tasks: tf.data.Dataset) -> tf.data.Dataset:
        """The same records in the same order, those of the first task in parts; see the class."""
        if self.first_records is None:
            return tasks
        bounds = [0, self.first_records]
        while bounds[-1] < self.worker_shard.geometry.window_records:
            bounds.append(2 * bounds[-1])

        def parts(task: Task) -> tf.data.Dataset:
            within = tf.minimum(tf.constant(bounds, tf.int64), task.take)
            cuts = tf.data.Dataset.from_tensor_slices((within[:-1], within[1:]))
            cuts = cuts.filter(lambda begin, end: begin < end)
            return cuts.map(
                lambda begin, end: task._replace(skip=task.skip + begin, take=end - begin)
            )

        return tasks.take(1).flat_map(parts).concatenate(tasks.skip(1))

    def of_epoch(self, epoch: Any, position: Any, stop: Any = None) -> tf.data.Dataset:
        """The tasks of an epoch from a position on, in order.

        Args:
            epoch: Scalar int64.
            position: Scalar int64, a multiple of the workers; not behind the last record.
            stop: Scalar int64, a multiple of the batch size; tasks end there where it is not behind
                the last record. None reads to the end.
        """
        share = self.worker_shard
        own = tf.constant(share.worker, tf.int64)
        last = tf.constant(min(share.geometry.records, share.emitted), tf.int64)
        tasks = self._tasks(epoch, position, own, last if stop is None else tf.minimum(last, stop))
        filling = share.filling()
        if filling:
            columns = tuple(tf.constant(column, tf.int64) for column in zip(*filling, strict=True))
            zero = tf.constant(0, tf.int64)
            fill = tf.data.Dataset.from_tensor_slices(columns).map(
                lambda window, residue, take: Task(epoch, window, residue, zero, take, zero)
            )
            if stop is not None:  # what fills up belongs to the last batch
                fill = fill.take(tf.where(stop > last, tf.constant(-1, tf.int64), 0))
            tasks = tasks.concatenate(fill)
        return tasks

    def endless(self, epoch: int, position: int) -> tf.data.Dataset:
        """The tasks of all epochs from one on, one after the other, as if they were one.

        An epoch then need not begin with a batch, nor with the same worker; nothing is dropped or
        filled up.

        Args:
            epoch: The first one.
            position: In it, below its records.
        """
        share = self.worker_shard
        records = share.geometry.records

        def tasks(number: Any) -> tf.data.Dataset:
            start = tf.where(number == epoch, tf.constant(position, tf.int64), 0)
            residue = (share.worker - number * records) % share.workers
            return self._tasks(number, start, residue, records)

        return self.starting_small(tf.data.Dataset.range(epoch, tf.int64.max).flat_map(tasks))

    def _tasks(self, epoch: Any, start: Any, residue: Any, stop: Any) -> tf.data.Dataset:
        """The tasks of the positions from `start` to `stop` of an epoch; none is empty."""
        workers, size = self.worker_shard.workers, self.worker_shard.geometry.window_records

        def own(positions: Any) -> Any:  # how many of the first positions have this residue
            return tf.maximum(positions - residue + workers - 1, 0) // workers

        def task(window: Any) -> Task:
            base = window * size
            begin, end = own(tf.maximum(base, start)), own(tf.minimum(base + size, stop))
            one = tf.constant(1, tf.int64)
            return Task(epoch, window, residue, begin - own(base), end - begin, one)

        windows = tf.data.Dataset.range(start // size, -(-stop // size)).map(task)
        return windows.filter(lambda found: found.take > 0)

    def read(self, task: Task) -> WindowPart:
        """The records of one task, of which there is at least one."""
        numbers, wanted, positions = self._order(task)
        if self.selection is not None:
            numbers = tf.gather(self.selection, numbers)
        wanted = wanted[task.skip : task.skip + task.take]
        # Read in the order on disk, and only what is wanted, which is all but for the first window
        # of a continued epoch and the last ones of any.
        read = tf.sort(wanted)
        places = tf.searchsorted(read, wanted, out_type=tf.int64)
        records = tf.gather(numbers, wanted)
        draws = records if self.sampler is None else tf.gather(positions, wanted) + DRAWN
        weights = tf.ones_like(wanted, tf.float32) * tf.cast(task.real, tf.float32)
        if self.options.on_corrupt == "skip":
            serialized, sources = self.record_reader.read_skipping(tf.gather(numbers, read))
            sources = tf.gather(sources, places)
            weights = tf.where(sources == records, weights, LOST)
            records = sources
        else:
            serialized = self.record_reader.read(tf.gather(numbers, read))
        sizes = None if self.sizes is None else self.sizes(records)
        return WindowPart(tf.gather(serialized, places), draws, weights, sizes)

    def _order(self, task: Task) -> tuple[Any, Any, Any]:
        """([m] record numbers, [m] where to find the next one, [m] positions) of a whole window."""
        share, options = self.worker_shard, self.options
        if self.sampler is not None:
            positions, wanted = graph_order.window_order(
                share.geometry,
                task.window,
                task.residue,
                share.workers,
                options.seed,
                task.epoch,
                "off",
            )
            return self.sampler.numbers(positions, task.epoch), wanted, positions
        if self.lengths is not None:
            numbers, wanted = graph_order.bucket_order(
                share.geometry,
                self.lengths,
                task.window,
                task.residue,
                share.workers,
                options.batch_size,
                options.buckets,
                options.seed,
                task.epoch,
            )
        else:
            numbers, wanted = graph_order.window_order(
                share.geometry,
                task.window,
                task.residue,
                share.workers,
                options.seed,
                task.epoch,
                options.shuffle,
            )
        return numbers, wanted, numbers
