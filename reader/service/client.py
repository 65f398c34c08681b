"""Batches from other processes: the client of `shardmill serve`, on tf.data service.

An epoch is cut into units of whole batches. The dispatcher assigns units to workers on
request, and a worker reads, decodes and batches a unit by the same pure functions as a local
stream. tf.data service delivers each unit at most once: units in progress are lost with their
worker. So every batch carries its number, and the client keeps account:

    served    (number, batch) --+
                                +--> account --> batches that were not there before --> the stream
    clock     a tick a second --+           +--> numbers of those that will not come: read here

These are TensorFlow operations, except for one check whether the service answers at the beginning
of an epoch. The account is the state of a scan, hence of one iterator: a data set may be iterated
several times at once.
"""

from __future__ import annotations

import dataclasses
import sys
import warnings
from typing import Any

import numpy as np
import tensorflow as tf

from reader.graph.pipeline import InputPipeline, finished, without_rewrites
from reader.service.address import Address, check_answers
from reader.state import Position
from shard_format import UsageError

# Ticks of a second without a batch, until some are read here. More than a worker needs to come back
# or to read its first batch from cold storage; too few cost work done twice, nothing else.
PATIENCE = 30
_TICK_MICROSECONDS = 1_000_000
# Units that a worker has in hand, so that storage is asked for one while another is decoded.
_UNITS_AT_A_TIME = 2
# Events that are no batch, in the place of its number.
_TICK, _END = -1, -2


@dataclasses.dataclass(frozen=True)
class Service:
    """The epochs of a split, made by a service.

    Attributes:
        pipeline: Input pipeline of the batches.
        address: Address of the dispatcher.
        steps: Number of batches of an epoch.
    """

    pipeline: InputPipeline
    address: Address
    steps: int

    @property
    def unit(self) -> int:
        """Batches of a unit: a window of records. Parts of one would be read in small pieces."""
        window = self.pipeline.windows.worker_shard.geometry.window_records
        return max(1, window // self.pipeline.options.batch_size)

    def epoch(self, epoch: Any, first: Any) -> tf.data.Dataset:
        """The batches of an epoch from number `first` on, each once, as they arrive.

        After the last one it does not end, since the clock does not.
        """
        answers = tf.numpy_function(self._answers, [], tf.int64)
        answers.set_shape([])

        def branch(clock: Any) -> tf.data.Dataset:
            nothing = self._local(epoch, tf.zeros([0], tf.bool))
            # Each is empty in the other branch. A service that does not answer must not be asked:
            # TensorFlow would ask again for ever, and could not be stopped.
            served = tf.data.Dataset.range(answers * (1 - clock)).flat_map(
                lambda _: self._served(epoch, first)
            )
            batches = served.map(lambda n, batch: (n, tf.data.Dataset.from_tensors(batch)))
            end = tf.data.Dataset.range(_END, _END + 1 - clock).map(lambda n: (n, nothing))
            ticks = _slowly(tf.data.Dataset.range(tf.int64.max * clock))
            ticks = ticks.map(lambda _: (tf.constant(_TICK, tf.int64), nothing))
            return batches.concatenate(end).concatenate(ticks)

        events = tf.data.Dataset.range(2).interleave(
            branch, cycle_length=2, num_parallel_calls=2, deterministic=False
        )
        begin = (tf.range(self.steps, dtype=tf.int64) < first, tf.constant(0, tf.int64))
        accounted = events.scan(begin, lambda state, event: self._account(epoch, state, *event))
        return accounted.flat_map(
            lambda new, batch, wanted: batch.take(new).concatenate(self._local(epoch, wanted))
        )

    def _answers(self) -> Any:
        try:
            check_answers(self.address, "a stream")
        except UsageError:
            return np.int64(0)
        return np.int64(1)

    def _served(self, epoch: Any, first: Any) -> tf.data.Dataset:
        """(number, batch) of all from `first` on, as far as workers live to make them."""

        def make(unit: Any) -> tf.data.Dataset:
            begin = tf.maximum(unit * self.unit, first)
            end = tf.minimum((unit + 1) * self.unit, self.steps)
            return self.pipeline.numbered(epoch, begin, end).enumerate(begin)

        # The dispatcher deals out the elements of this range.
        units = tf.data.Dataset.range(first // self.unit, -(-self.steps // self.unit))
        batches = units.interleave(
            make,
            cycle_length=_UNITS_AT_A_TIME,
            num_parallel_calls=_UNITS_AT_A_TIME,
            deterministic=False,
        )
        distribute = tf.data.experimental.service.distribute(
            tf.data.experimental.service.ShardingPolicy.DYNAMIC,
            str(self.address),
            compression=None,  # decoded images hardly shrink, and CPUs are what is short
        )
        return batches.with_options(without_rewrites()).apply(distribute)

    def _local(self, epoch: Any, wanted: Any) -> tf.data.Dataset:
        """The batches whose number is True in wanted, [steps] bool or empty, read by this process.

        Those that follow each other are read as one stream.
        """
        edges = tf.concat([[0], tf.cast(wanted, tf.int32), [0]], axis=0)
        steps = edges[1:] - edges[:-1]
        runs = (tf.where(steps == 1)[:, 0], tf.where(steps == -1)[:, 0])
        return tf.data.Dataset.from_tensor_slices(runs).flat_map(
            lambda begin, end: self.pipeline.numbered(epoch, begin, end)
        )

    def _account(self, epoch: Any, state: tuple[Any, Any], number: Any, batch: Any) -> Any:
        """What an event leads to.

        Args:
            epoch: Scalar int64.
            state: (done [steps] bool, scalar int64: ticks since the last batch).
            number: Number of the batch that came, `_TICK` or `_END`.
            batch: A data set of it, or of nothing.

        Returns:
            The next state, and (1 if the batch is new else 0, batch, which to read here: [steps]
            bool, or empty).
        """
        done, silence = state
        place = tf.maximum(number, 0)
        new = (number >= 0) & ~done[place]
        done = tf.tensor_scatter_nd_update(done, [[place]], [new | done[place]])
        silence = tf.where(number == _TICK, silence + 1, 0)
        # The longer the silence, the more: where one worker is lost, little is done twice; where
        # all are, this machine reads at its own speed.
        unit, steps = tf.constant(self.unit, tf.int64), tf.constant(self.steps, tf.int64)
        limit = tf.bitwise.left_shift(unit, tf.clip_by_value(silence - PATIENCE, 0, 30))
        limit = tf.where(silence < PATIENCE, tf.zeros_like(limit), limit)
        limit = tf.where(number == _END, steps, limit)

        def take_over() -> tuple[Any, Any]:
            missing = tf.cast(~done, tf.int64)
            wanted = ~done & (tf.cumsum(missing) <= limit)
            count = tf.math.count_nonzero(wanted)
            tf.cond(count > 0, lambda: self._tell(epoch, count), tf.no_op)
            return done | wanted, wanted

        done, wanted = tf.cond(limit > 0, take_over, lambda: (done, tf.zeros([0], tf.bool)))
        return (done, silence), (tf.cast(new, tf.int64), batch, wanted)

    def _tell(self, epoch: Any, count: Any) -> Any:
        return tf.print(
            "shardmill:",
            count,
            f"of {self.steps} batches of epoch",
            epoch,
            f"did not come from {self.address}; they are read on this machine",
            output_stream=sys.stderr,
        )


def build_served(
    pipeline: InputPipeline, address: Address, steps: int, start: Position, batches: int
) -> tf.data.Dataset:
    """The data set of one split from a position on, its batches made by a service.

    Args:
        pipeline: Input pipeline of the split.
        address: Address of the dispatcher.
        steps: Number of batches of an epoch.
        start: Position of the first batch.
        batches: Number of batches in all; tf.data.INFINITE_CARDINALITY for no end.
    """
    service = Service(pipeline, address, steps)
    last = tf.int64.max if pipeline.options.epochs is None else pipeline.options.epochs

    def of_epoch(epoch: Any) -> tf.data.Dataset:
        first = tf.where(epoch == start.epoch, tf.constant(start.step, tf.int64), 0)
        count = tf.constant(steps, tf.int64) - first
        # An iterator of its own, and not a data set in the chain: when that goes, TensorFlow waits
        # for what it has asked of a service, which may be gone; an iterator cancels it before.
        batches = finished(service.epoch(epoch, first), count, pipeline.options)
        iterator = iter(batches.with_options(without_rewrites()))
        return tf.data.Dataset.range(count).map(lambda _: next(iterator))

    with warnings.catch_warnings():
        # Inside a graph, TensorFlow cannot see that no options were set on what it distributes.
        warnings.filterwarnings("ignore", "To make it possible to preserve tf.data options")
        dataset = tf.data.Dataset.range(start.epoch, last).flat_map(of_epoch)
    return finished(dataset, batches, pipeline.options)


def _slowly(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """A data set of numbers, no more than one a tick."""
    variant = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        sleep_microseconds=_TICK_MICROSECONDS,
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.int64))
