"""The time of each stage of a stream, from the same chain cut short behind every stage.

Stages run in parallel, so a clock cannot time them: a stage takes the CPU time of the chain with
it, less that of the chain without it. CPU times add up, whatever else runs on however many cores;
rates do not.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from typing_extensions import override

from reader.graph.pipeline import InputPipeline
from reader.graph.record_types import BatchParser, GraphParser
from reader.profiling.clock import Clock, Elapsed
from reader.profiling.sampled_pipeline import dataset_of, open_again, sampled_pipeline
from reader.profiling.storage_benchmark import StorageTimes, measure_storage
from reader.stream import Stream
from shard_format import UsageError

_ROUNDS = 2  # so that a busy second of the machine does not fall upon one stage
_WARM_UP = 0.4  # of the time that is measured: until the threads of tf.data have found their number
_CALL_SECONDS = 0.05  # batches are drained in calls of about that length

OnStage = Callable[[str], None]  # called with the name of what is measured next


@dataclasses.dataclass(frozen=True)
class ChainTimes:
    """The time of a chain, in seconds per record.

    Attributes:
        seconds: Until the next record comes, all cores at work, and none for other programs.
        cpu_seconds: CPU time over all threads.
    """

    seconds: float
    cpu_seconds: float


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of a chain.

    Attributes:
        name: "storage", "parse", "decode" (with crop and resize), "augment" or "batch".
        cpu_seconds: CPU time per record that this stage adds.
        up_to_here: Rate of the chain cut short behind this stage, records from memory; None for a
            stage that was measured by itself.
    """

    name: str
    cpu_seconds: float
    up_to_here: ChainTimes | None


@dataclasses.dataclass(frozen=True)
class StageTimes:
    """The times of a stream.

    Attributes:
        storage: Rates of the files.
        reads_files: Whether the stream reads them every time; else its records are in memory.
        stages: In the order in which a record passes them. "storage" is the CPU time of reading
            files, where they are read, and of finding out which record is next.
        chain: Rates of the whole stream, storage left out.
    """

    storage: StorageTimes
    reads_files: bool
    stages: tuple[Stage, ...]
    chain: ChainTimes

    @property
    def slowest(self) -> Stage:
        """The stage that takes the most CPU time."""
        return max(self.stages, key=lambda stage: stage.cpu_seconds)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Unparsed(BatchParser):
    """Records that are not even parsed: an element is the length of a record in bytes."""

    element_shape = property(lambda self: ())
    element_dtype = property(lambda self: "int32")
    targets = property(lambda self: "none")

    @override
    def stages(self) -> list[tuple[str, GraphParser]]:
        return [("storage", self)]

    @override
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        return tf.strings.length(serialized)


def parsers_by_stage(parser: GraphParser) -> list[tuple[str, GraphParser]]:
    """Returns (stage, parser that ends behind it) for every stage; the last is the whole one."""
    return [("storage", _Unparsed()), *parser.stages()]


def measure_stages(
    stream: Stream, seconds: float, on_stage: OnStage = lambda name: None
) -> StageTimes:
    """The time of each stage of a stream, on the same records, with nothing else running.

    Args:
        stream: From `reader.load`; itself it is not read.
        seconds: For each measurement, above 0; there are six for images.
        on_stage: Called as each begins.

    Raises:
        UsageError: The time is not above 0.
    """
    if not seconds > 0:
        raise UsageError(f"seconds is {seconds} in reader.measure_stages. Pass a number above 0.")
    on_stage("storage")
    with tf.device("/CPU:0"):
        storage = measure_storage(open_again(stream), seconds)
        pipeline = sampled_pipeline(stream)
        batching = _batching(pipeline, seconds / _ROUNDS)
        chains: dict[str, ChainTimes] = {}
        drains: dict[str, _Drain] = {}
        for _ in range(_ROUNDS):
            for name, parser in parsers_by_stage(pipeline.parser):
                on_stage(name)
                if name not in drains:
                    drains[name] = _drain(dataclasses.replace(pipeline, parser=parser))
                times = drains[name].measure(seconds / _ROUNDS)
                chains[name] = _least(chains.get(name, times), times)
    stages: list[Stage] = []
    before = 0.0
    reads_files = stream.info.cache != "memory"
    for name, chain in chains.items():
        added = chain.cpu_seconds - before
        if name == "storage" and reads_files:
            added += storage.cpu_seconds
        # Noise may make a stage that does next to nothing a gain.
        stages.append(Stage(name, max(0.0, added), chain))
        before = chain.cpu_seconds
    return StageTimes(storage, reads_files, _with_batching(stages, batching), chain)


def _least(one: ChainTimes, other: ChainTimes) -> ChainTimes:
    """Whatever else a machine does makes times longer, never shorter."""
    return ChainTimes(min(one.seconds, other.seconds), min(one.cpu_seconds, other.cpu_seconds))


def _drain(pipeline: InputPipeline) -> _Drain:
    return _Drain(dataset_of(pipeline), pipeline.options.batch_size)


def _batching(pipeline: InputPipeline, seconds: float) -> ChainTimes | None:
    """What putting finished elements into batches takes; None where they never are apart."""
    if isinstance(pipeline.parser, BatchParser):
        return None
    batch_size = pipeline.options.batch_size
    element = tf.nest.map_structure(lambda value: value[0], next(iter(dataset_of(pipeline))))
    dataset = tf.data.Dataset.from_tensors(element).repeat()
    dataset = dataset.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    return _Drain(dataset, batch_size).measure(seconds)


def _with_batching(stages: list[Stage], batching: ChainTimes | None) -> tuple[Stage, ...]:
    """The stages with that of batching behind them, which decoding was charged with.

    A chain cut short before it decodes batches numbers, one that decodes batches images.
    """
    if batching is None:
        return tuple(stages)
    charged = next(stage for stage in stages if stage.name == "decode")
    share = min(batching.cpu_seconds, charged.cpu_seconds)
    rest = dataclasses.replace(charged, cpu_seconds=charged.cpu_seconds - share)
    kept = [rest if stage is charged else stage for stage in stages]
    return (*kept, Stage("batch", share, None))


class _Drain:
    """Takes batches from an endless data set and drops them inside the graph, as a model would.

    A loop in Python would add 50 to 100 us a batch, of which a small batch of text has fewer.

    Args:
        dataset: The data set.
        batch_size: Records in each of its batches.
    """

    def __init__(self, dataset: tf.data.Dataset, batch_size: int) -> None:
        @tf.function
        def drop(batches: Any, count: Any) -> None:
            for _ in tf.range(count):
                next(batches)

        self._drop, self._batches, self._batch_size = drop, iter(dataset), batch_size
        drop(self._batches, tf.constant(1))

    def measure(self, seconds: float) -> ChainTimes:
        """What a record takes, after a warm-up: between two measurements buffers have filled."""
        _, per_call, _ = self._take(_WARM_UP * seconds, 1)
        dropped, _, elapsed = self._take(seconds, per_call)
        records = dropped * self._batch_size
        return ChainTimes(elapsed.alone_seconds / records, elapsed.cpu_seconds / records)

    def _take(self, seconds: float, per_call: int) -> tuple[int, int, Elapsed]:
        """(batches dropped in some seconds, how many in the last call, the time it took)."""
        clock, dropped = Clock(), 0
        begin = now = time.perf_counter()
        while now - begin < seconds:
            call = now
            self._drop(self._batches, tf.constant(per_call))
            now = time.perf_counter()
            dropped += per_call
            if now - call < _CALL_SECONDS and now - begin < seconds:
                per_call *= 2
        return dropped, per_call, clock.elapsed()
