"""The tf.data chain, from the tasks of a worker to batches."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import tensorflow as tf

from reader.graph import order as graph_order
from reader.graph.record_types import BatchParser, GraphParser, RecordParser
from reader.graph.windows import GraphWindows
from reader.options import ReadOptions
from reader.windows import LOST, Task

# AutoGraph would translate every function here, which takes most of the time to the first batch;
# none of them branches on tensors in Python.
without_autograph = tf.autograph.experimental.do_not_convert


@dataclasses.dataclass(frozen=True)
class InputPipeline:
    """A split of a set, and how its records become batches.

    Attributes:
        windows: Windows to read.
        parser: Parser of the records.
        options: Options of the stream; its batch size is that of all workers.
    """

    windows: GraphWindows
    parser: GraphParser
    options: ReadOptions

    def elements(self, tasks: tf.data.Dataset) -> tf.data.Dataset:
        """The elements of `batches`: decoded records, or serialized ones and their keys."""
        if isinstance(self.parser, RecordParser):
            return self._decoded(tasks, self.parser)
        return self._serialized(tasks).unbatch()

    def batches(self, tasks: tf.data.Dataset) -> tf.data.Dataset:
        """A worker's share of every batch; see `reader.load`."""
        if isinstance(self.parser, RecordParser):
            return self.batched(self._decoded(tasks, self.parser))
        # Still serialized: a string is passed on by reference, a ragged row would be copied.
        serialized = self._serialized(tasks)
        drops = self.options.remainder != "keep"  # see `batched`
        return self._parsed(serialized.rebatch(self._share, drop_remainder=drops))

    def numbered(self, epoch: Any, begin: Any, end: Any) -> tf.data.Dataset:
        """The batches with the numbers [begin, end) of an epoch, in order; see `batches`."""
        size = self.options.batch_size
        reader = self.windows.portable or self.windows.record_reader
        windows = dataclasses.replace(self.windows, record_reader=reader)
        pipeline = dataclasses.replace(self, windows=windows)
        return pipeline.batches(self.windows.of_epoch(epoch, begin * size, end * size))

    def batched(self, elements: tf.data.Dataset) -> tf.data.Dataset:
        """Batches of `elements`, or of several such data sets mixed."""
        # Never drops, for epochs are made of whole batches before; it makes the shape static.
        drops = self.options.remainder != "keep"
        batches = elements.batch(self._share, drop_remainder=drops)
        parser = self.parser
        if not isinstance(parser, RecordParser):
            return self._parsed(batches)
        if not parser.mixes and not self._shrinks:
            return batches

        def finish(*batch: Any) -> Any:
            kept: Any = batch
            if self._shrinks:
                element, weights = batch
                kept = _without(weights == LOST, element)
                kept = kept if isinstance(kept, tuple) else (kept,)
            return parser.finish(*kept) if parser.mixes else _unpacked(kept)

        return batches.map(finish, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def _parsed(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """([b] string, [b] uint64 keys, [b] float32 weights) -> batches of the stream."""
        parser = cast(BatchParser, self.parser)

        def decode(serialized: Any, keys: Any, weights: Any) -> Any:
            if self._shrinks:
                rows = (serialized, keys, weights)
                serialized, keys, weights = _without(weights == LOST, rows)
            return self._weighted(parser.decode_batch(serialized, keys), weights)

        return batches.map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    @property
    def _share(self) -> int:
        share = self.windows.worker_shard
        if self.options.remainder == "keep":
            # TensorFlow asks for every record that a batch has room for, even after the last one:
            # hours for a batch of 2**31, which stands for "all".
            return min(self.options.batch_size, share.geometry.records)
        return self.options.batch_size // share.workers

    @property
    def _shrinks(self) -> bool:
        """Whether a batch is smaller by its damaged records.

        Where batches have weights, theirs is 0, and every batch has its shape.
        """
        return self.options.on_corrupt == "skip" and self.options.remainder != "pad"

    def _decoded(self, tasks: tf.data.Dataset, parser: RecordParser) -> tf.data.Dataset:
        """Records decoded one at a time, since each is worth a call: images."""
        seed = self.options.seed

        def read(task: Task) -> Any:
            part = self.windows.read(task)
            # At least one, wanted or not: unbatch() of a tensor [n, 0] ends the process (TF 2.21).
            count = max(1, parser.num_random)
            random = graph_order.uniforms(part.draws, count, seed, task.epoch)
            features = parser.parse(part.serialized)
            if part.sizes is not None and parser.boxes_many:
                features = parser.boxed(features, part.sizes, random)
            return features, random, part.weights

        def decode(features: Any, random: Any, weight: Any) -> Any:
            element = self._weighted(parser.decode(features, random), weight)
            return (element, weight) if self._shrinks else element

        # A window is a pure function of its task. It is read, shuffled and parsed as a whole: that
        # costs 12 us a record for the parse, where one parse per record took 18 us, and no element
        # passes a shuffle buffer.
        windows = tasks.map(  # ({feature: [n]}, random [n, k], weight [n])
            read, num_parallel_calls=self.windows.ahead, deterministic=True
        )
        # All the work is in this one map; a chain of maps would pay a queue for each link.
        return windows.unbatch().map(
            decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )

    def _serialized(self, tasks: tf.data.Dataset) -> tf.data.Dataset:
        """Windows of records that take a microsecond each, less than a call: text."""

        def read(task: Task) -> Any:
            part = self.windows.read(task)
            keys = graph_order.augment_keys(part.draws, self.options.seed, task.epoch)
            return part.serialized, keys, part.weights

        return tasks.map(  # ([n] string, [n] uint64, [n] float32)
            read, num_parallel_calls=self.windows.ahead, deterministic=True
        )

    def _weighted(self, element: Any, weights: Any) -> Any:
        """The element with weights, 0 for records that fill up a batch, if the stream has such."""
        if self.options.remainder != "pad":
            return element
        weights = tf.maximum(weights, 0.0)
        if self.parser.like.targets == "none":
            return element, weights
        if len(element) == 2:
            return (*element, weights)
        inputs, targets, own = element
        return inputs, targets, own * tf.reshape(weights, [-1, *[1] * (own.shape.rank - 1)])


def _without(lost: Any, batch: Any) -> Any:
    """The rows [batch, ...] of every tensor that are not lost."""
    return tf.nest.map_structure(lambda rows: tf.boolean_mask(rows, ~lost), batch)


def _unpacked(parts: tuple[Any, ...]) -> Any:
    return parts[0] if len(parts) == 1 else parts


def build_dataset(
    pipeline: InputPipeline, epoch: int, position: int, batches: int
) -> tf.data.Dataset:
    """The data set of one split from a position of an epoch on.

    Args:
        pipeline: Input pipeline of the split.
        epoch: Number of the first epoch.
        position: Position in it, a multiple of the batch size.
        batches: Number of batches in all; tf.data.INFINITE_CARDINALITY for no end.
    """
    last = tf.int64.max if pipeline.options.epochs is None else pipeline.options.epochs
    # Epochs end here, before anything that reads or computes: all that follows is one stream, so
    # the first window of an epoch is read while the last one of the epoch before is decoded.
    tasks = tf.data.Dataset.range(epoch, last).flat_map(
        lambda number: pipeline.windows.of_epoch(
            number, tf.where(number == epoch, tf.constant(position, tf.int64), 0)
        )
    )
    tasks = pipeline.windows.starting_small(tasks)
    return finished(pipeline.batches(tasks), batches, pipeline.options)


def finished(dataset: tf.data.Dataset, batches: int, options: ReadOptions) -> tf.data.Dataset:
    """The data set with its length, its options, and prefetched batches."""
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(batches))
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(_tf_options(options))


def without_rewrites() -> tf.data.Options:
    """No rewriting of the graph: it gains nothing here, and would be done for every iterator."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return options


def _tf_options(asked: ReadOptions) -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    # A strategy must not shard by file: the reader divides the records among workers.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    if asked.threads is not None:
        options.threading.private_threadpool_size = asked.threads
        options.autotune.cpu_budget = asked.threads
    if asked.ram_budget is not None:
        options.autotune.ram_budget = asked.ram_budget
    return options
