"""A stream whose records are in memory, to measure everything but storage."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import tensorflow as tf
from typing_extensions import override

from reader.cache.pixels import PLACE, empty_pixels, pixels_in_memory
from reader.opening import Opened, open_split
from reader.order.numpy_order import Int64Array
from reader.pipeline import InputPipeline, build_dataset, without_autograph
from reader.record_types import Parser
from reader.record_types.image import ImageParser
from reader.records.readers import RecordReader
from reader.stream import ServedStream, Stream
from reader.windows import Windows
from shard_format import UsageError

SAMPLE_RECORDS = 4096
_DECODED_RECORDS = 512  # pixels take some ten times the bytes
SAMPLE_BYTES = 64 << 20  # 64 MiB: far beyond the caches of a processor, read in seconds anywhere


@dataclasses.dataclass(frozen=True)
class SampledRecordReader(RecordReader):
    """Some records of a split, repeated in place of all.

    Attributes:
        serialized: [n] string; record i of the split is replaced by number i modulo n.
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
    options = stream.options
    if options is None and isinstance(stream, ServedStream):
        raise UsageError(
            "The stages of a service's stream cannot be measured in reader.measure_stages: they "
            "run in other processes. Measure on a machine of the service, without service."
        )
    if options is None:
        raise UsageError(
            "The stages of a mixture cannot be measured in reader.measure_stages. Measure the "
            "streams of its sets one by one."
        )
    changes: dict[str, Any] = {"epochs": None, "worker": (0, 1)}
    changes |= {"cache": "off", "cache_stage": "stored"}
    if options.remainder == "keep":
        changes["remainder"] = "wrap"  # "drop" has no batch where the split has less than one
    with tf.device("/CPU:0"):
        return open_split(
            stream.directory or stream.info.directory, dataclasses.replace(options, **changes)
        )


def sampled_pipeline(stream: Stream) -> InputPipeline:
    """The same stream, endless, from memory; a sample of its records is repeated."""
    opened = open_again(stream)
    if stream.info.cache_stage == "decoded":
        return decoded_pipeline(opened)
    pipeline = opened.pipeline
    numbers = sample_numbers(opened)
    windows = dataclasses.replace(
        pipeline.windows, record_reader=SampledRecordReader(read_records(opened, numbers))
    )
    if windows.lengths is not None:
        lengths = _Sampled(windows.lengths, tf.constant(numbers))
        windows = dataclasses.replace(windows, lengths=lengths)  # type: ignore[arg-type]
    return dataclasses.replace(pipeline, windows=_with_sizes(windows, numbers))


def _with_sizes(windows: Windows, numbers: Int64Array) -> Windows:
    """Windows that give the sizes of the sampled images, not those of the replaced ones.

    Else a crop could be outside of its image.
    """
    if windows.sizes is None:
        return windows
    sizes = _Sampled(windows.sizes, tf.constant(numbers))
    return dataclasses.replace(windows, sizes=sizes)  # type: ignore[arg-type]


def decoded_pipeline(opened: Opened) -> InputPipeline:
    """Returns the pipeline of images that a cache of decoded ones would have, from memory."""
    parser = cast(ImageParser, opened.pipeline.parser)
    numbers = sample_numbers(opened, _DECODED_RECORDS)
    sample = read_records(opened, numbers)
    with tf.device("/CPU:0"):
        features = parser.parse(sample)
        images, placed, place = [], [], 0
        for number, serialized in enumerate(sample.numpy()):
            one = tf.nest.map_structure(lambda values, at=number: values[at], features)
            images.append(parser.decoder.decode(one, None).numpy())
            placed.append(_placed(serialized, parser.image, images[-1].shape, place))
            place += images[-1].size
        pixels = empty_pixels(place)
        np.concatenate([image.ravel() for image in images], out=pixels)
        record_reader = SampledRecordReader(tf.constant(placed))
    decoded = dataclasses.replace(parser, decoder=pixels_in_memory(pixels))
    pipeline = with_parser(with_record_reader(opened.pipeline, record_reader), decoded)
    return dataclasses.replace(pipeline, windows=_with_sizes(pipeline.windows, numbers))


def _placed(serialized: bytes, feature: str, shape: tuple[int, ...], place: int) -> bytes:
    """A record as a cache of decoded images has it."""
    example = tf.train.Example.FromString(serialized)
    features = example.features.feature
    features[feature].bytes_list.value[0] = b""
    for name, value in (("height", shape[0]), ("width", shape[1]), (PLACE, place)):
        features[name].int64_list.value[:] = [value]
    return bytes(example.SerializeToString())


def sample_numbers(opened: Opened, most: int = SAMPLE_RECORDS) -> Int64Array:
    """[n] numbers of records from all over a split, in order; some MiB of them in runs."""
    info, geometry = opened.info, opened.pipeline.windows.worker_shard.geometry
    count = min(most, int(SAMPLE_BYTES * info.records / info.stored_bytes), info.records)
    if count == info.records:
        return np.arange(count)
    run = min(geometry.chunk_records, max(1, count))
    starts = np.linspace(0, info.records - run, max(1, count // run)).astype(np.int64)
    return np.unique(starts[:, None] + np.arange(run))


def read_records(opened: Opened, numbers: Int64Array) -> Any:
    """[n] string: serialized records of a split."""
    with tf.device("/CPU:0"):
        return opened.pipeline.windows.record_reader.read(tf.constant(numbers))


def window_records(stream: Stream) -> int:
    """How many records are read as a whole before the first of them comes."""
    return min(
        open_again(stream).pipeline.windows.worker_shard.geometry.window_records,
        stream.info.records,
    )


def with_parser(pipeline: InputPipeline, parser: Parser) -> InputPipeline:
    """Returns the same pipeline with another parser."""
    return dataclasses.replace(pipeline, parser=parser)


def with_record_reader(pipeline: InputPipeline, record_reader: RecordReader) -> InputPipeline:
    """Returns the same pipeline, whose records come from somewhere else."""
    return dataclasses.replace(
        pipeline, windows=dataclasses.replace(pipeline.windows, record_reader=record_reader)
    )


def with_images(
    pipeline: InputPipeline, stored: list[bytes], sizes: list[tuple[int, int]]
) -> InputPipeline:
    """Returns the same pipeline, with other images in place of its own.

    Args:
        pipeline: Pipeline of images.
        stored: Serialized records of the others.
        sizes: Height and width of each.
    """
    with tf.device("/CPU:0"):
        pipeline = with_record_reader(pipeline, SampledRecordReader(tf.constant(stored)))
        if pipeline.windows.sizes is None:
            return pipeline
        own = _OwnSizes(tf.constant(sizes, tf.int32))
    windows = dataclasses.replace(pipeline.windows, sizes=own)  # type: ignore[arg-type]
    return dataclasses.replace(pipeline, windows=windows)


def dataset_of(pipeline: InputPipeline) -> tf.data.Dataset:
    """Returns the endless batches of a pipeline."""
    with tf.device("/CPU:0"):
        return without_autograph(build_dataset)(pipeline, 0, 0, int(tf.data.INFINITE_CARDINALITY))


@dataclasses.dataclass(frozen=True)
class _OwnSizes:
    """[m, 2] int32 sizes of the images that replace those of some numbers."""

    sizes: Any

    def __call__(self, numbers: Any) -> Any:
        return tf.gather(self.sizes, numbers % tf.shape(self.sizes, tf.int64)[0])


@dataclasses.dataclass(frozen=True)
class _Sampled:
    """Lengths, or sizes, of the records that replace those of some numbers."""

    found: Callable[[Any], Any]
    numbers: Any

    def __call__(self, numbers: Any) -> Any:
        stand_for = tf.gather(self.numbers, numbers % tf.size(self.numbers, tf.int64))
        return self.found(stand_for)
