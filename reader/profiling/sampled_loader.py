"""A stream with its records in memory, to measure all stages but storage."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from typing_extensions import override

from reader.loader import BatchLoader
from reader.loading import LoadedStream, ServedStream
from reader.opening import Opened, open_split
from reader.options import ReadOptions
from reader.order.buckets import Lookup
from reader.order.numpy_order import Int64Array
from reader.records.readers import RecordReader
from reader.stream import Stream
from shard_format import UsageError
from shard_format.example_parser import Examples

SAMPLE_RECORDS = 4096
SAMPLE_BYTES = 64 << 20  # 64 MiB: far beyond the caches of a processor, read in seconds anywhere


@dataclasses.dataclass(frozen=True)
class SampledRecordReader(RecordReader):
    """Some records of a split, repeated in place of all.

    Attributes:
        examples: [n] records; record i of the split is replaced by record i modulo n.
    """

    examples: Examples

    @override
    def read(self, numbers: Int64Array) -> Examples:
        return self.examples.take(numbers % len(self.examples))

    @override
    def place_of(self, number: int) -> str:
        return f"record {number % len(self.examples)} of a sample"


def open_again(stream: Stream) -> Opened:
    """The same stream, endless, and from the files of the set: without a cache.

    Raises:
        UsageError: It is a mixture, comes from a service, or needs TensorFlow.
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
    needs = stream.opened.loader.parser.needs_tensorflow
    if needs:
        raise UsageError(
            f"{needs} runs in TensorFlow, whose stages cannot be measured in "
            "reader.measure_stages. Leave it out, or give it a method arrays."
        )
    changes: dict[str, Any] = {"worker": (0, 1), "cache": "off", "cache_stage": "stored"}
    return open_split(stream.directory, dataclasses.replace(_endless(stream.options), **changes))


def _endless(options: ReadOptions) -> ReadOptions:
    # "drop" has no batch if the split has less than one.
    remainder = "wrap" if options.remainder == "keep" else options.remainder
    return dataclasses.replace(options, epochs=None, remainder=remainder)


def sampled_loader(stream: Stream) -> BatchLoader:
    """The same stream, endless, from memory; a sample of its records is repeated."""
    if isinstance(stream, LoadedStream) and stream.info.cache_stage == "decoded":
        # Its images are in memory, or in a file that is mapped, from the start.
        loader = stream.opened.loader
        options = _endless(loader.options)
        windows = dataclasses.replace(loader.windows, options=options)
        return dataclasses.replace(loader, windows=windows, options=options)
    opened = open_again(stream)
    numbers = sample_numbers(opened)
    windows = opened.loader.windows
    # Lengths are those of the sampled records: else batches would be of all lengths.
    lengths = windows.lengths
    windows = dataclasses.replace(
        windows,
        record_reader=SampledRecordReader(read_places(opened, numbers)),
        lengths=None if lengths is None else _SampledLengths(lengths, numbers),
        selection=None,
    )
    return dataclasses.replace(opened.loader, windows=windows)


@dataclasses.dataclass(frozen=True)
class _SampledLengths:
    lengths: Lookup
    numbers: Int64Array

    def __getitem__(self, places: Any) -> Any:
        return self.lengths[self.numbers[places % len(self.numbers)]]


def read_places(opened: Opened, places: Int64Array) -> Examples:
    """The records at [n] places of a split, or among those of it that are selected."""
    windows = opened.loader.windows
    return windows.record_reader.read(record_numbers(opened, places))


def record_numbers(opened: Opened, places: Int64Array) -> Int64Array:
    """[n] numbers of the records at places among those that are selected."""
    selection = opened.loader.windows.selection
    return places if selection is None else selection[places]


def sample_numbers(opened: Opened, limit: int = SAMPLE_RECORDS) -> Int64Array:
    """[n] places of records from all over a split, in order; some MiB of them in runs."""
    info, geometry = opened.info, opened.loader.windows.worker_shard.geometry
    count = min(limit, int(SAMPLE_BYTES * info.records / info.stored_bytes), info.records)
    if count == info.records:
        return np.arange(count)
    run = min(geometry.chunk_records, max(1, count))
    starts = np.linspace(0, info.records - run, max(1, count // run)).astype(np.int64)
    return np.unique(starts[:, None] + np.arange(run))
