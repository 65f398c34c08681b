"""A stream with its records in memory, to measure all stages but storage."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from typing_extensions import override

from reader.graph.pipeline import InputPipeline, build_dataset, without_autograph
from reader.graph.readers import GraphRecordReader
from reader.loading import LoadedStream, ServedStream
from reader.opening import Opened, open_split
from reader.options import ReadOptions
from reader.order.numpy_order import Int64Array
from reader.stream import Stream
from shard_format import UsageError

SAMPLE_RECORDS = 4096
SAMPLE_BYTES = 64 << 20  # 64 MiB: far beyond the caches of a processor, read in seconds anywhere


@dataclasses.dataclass(frozen=True)
class SampledRecordReader(GraphRecordReader):
    """Some records of a split, repeated in place of all.

    Attributes:
        serialized: [n] string records; record i of the split is replaced by record i modulo n.
    """

    serialized: Any

    @override
    def read(self, numbers: Any) -> Any:
        return tf.gather(self.serialized, numbers % tf.size(self.serialized, tf.int64))

    @override
    def read_skipping(self, numbers: Any) -> Any:
        return self.read(numbers), numbers


def open_again(stream: Stream) -> Opened:
    """The same stream, endless, and from the files of the set: without a cache.

    Raises:
        UsageError: It is a mixture, or comes from a service.
    """
    if isinstance(stream, ServedStream):
        raise UsageError(
            "The stages of a service's stream cannot be measured in reader.measure_stages: they "
            "run in other processes. Measure on a machine of the service, without service."
        )
    if not isinstance(stream, LoadedStream):
        raise UsageError(
            "The stages of a mixture cannot be measured in reader.measure_stages. Measure the "
            "streams of its sets one by one."
        )
    changes: dict[str, Any] = {"worker": (0, 1), "cache": "off", "cache_stage": "stored"}
    endless = dataclasses.replace(_endless(stream.options), **changes)
    with tf.device("/CPU:0"):
        return open_split(stream.directory, endless)


def _endless(options: ReadOptions) -> ReadOptions:
    # "drop" has no batch if the split has less than one.
    remainder = "wrap" if options.remainder == "keep" else options.remainder
    return dataclasses.replace(options, epochs=None, remainder=remainder)


def sampled_pipeline(stream: Stream) -> InputPipeline:
    """The same stream, endless, from memory; a sample of its records is repeated."""
    if isinstance(stream, LoadedStream) and stream.info.cache_stage == "decoded":
        # Its images are in memory, or in a file that is mapped, from the start.
        pipeline = stream.pipeline
        return dataclasses.replace(pipeline, options=_endless(pipeline.options))
    opened = open_again(stream)
    numbers = sample_numbers(opened)
    windows = opened.pipeline.windows
    with tf.device("/CPU:0"):
        serialized = windows.record_reader.read(tf.constant(numbers))
    # Lengths and sizes are those of the sampled records: else a crop could be outside of its image.
    sampled: dict[str, Any] = {
        name: _Sampled(column, tf.constant(numbers))
        for name in ("lengths", "sizes")
        if (column := getattr(windows, name)) is not None
    }
    windows = dataclasses.replace(windows, record_reader=SampledRecordReader(serialized), **sampled)
    return dataclasses.replace(opened.pipeline, windows=windows)


def sample_numbers(opened: Opened, limit: int = SAMPLE_RECORDS) -> Int64Array:
    """[n] numbers of records from all over a split, in order; some MiB of them in runs."""
    info, geometry = opened.info, opened.pipeline.windows.worker_shard.geometry
    count = min(limit, int(SAMPLE_BYTES * info.records / info.stored_bytes), info.records)
    if count == info.records:
        return np.arange(count)
    run = min(geometry.chunk_records, max(1, count))
    starts = np.linspace(0, info.records - run, max(1, count // run)).astype(np.int64)
    return np.unique(starts[:, None] + np.arange(run))


def dataset_of(pipeline: InputPipeline) -> tf.data.Dataset:
    """The endless batches of a pipeline."""
    with tf.device("/CPU:0"):
        return without_autograph(build_dataset)(pipeline, 0, 0, int(tf.data.INFINITE_CARDINALITY))


@dataclasses.dataclass(frozen=True)
class _Sampled:
    """Lengths or sizes of the records of a sample."""

    column: Callable[[Any], Any]
    numbers: Any

    def __call__(self, numbers: Any) -> Any:
        return self.column(tf.gather(self.numbers, numbers % tf.size(self.numbers, tf.int64)))
