"""`load`: from a directory and options to an input pipeline, and to a stream of batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import tensorflow as tf

from foundation.options import check_choice, described
from reader.cache.copying import Copies
from reader.cache.filling import Files, fill_cache
from reader.cache.locations import locate_dataset
from reader.damage import SkippedRecords
from reader.options import (
    REQUIRED,
    WHERE,
    Directory,
    OnCached,
    PathLike,
    ReadOptions,
    ignore_progress,
)
from reader.order.class_sampling import ClassSampler, make_sampler
from reader.order.geometry import Geometry, WorkerShard, emitted_records, make_geometry
from reader.pipeline import InputPipeline, build_dataset, without_autograph
from reader.record_types import (
    RECORD_TYPES,
    BatchParser,
    OpenSplit,
    ParserFactory,
    RecordParser,
    kind_of,
)
from reader.record_types.features import find_labels, label_values
from reader.record_types.image import ImageParser
from reader.records.split_index import open_lazily
from reader.service.address import check_answers, parse_address
from reader.service.client import build_served, check_directory
from reader.state import check_generation, order_of, read_state
from reader.stream import ServedStream, Stream, StreamInfo, stream_info
from reader.transforms.augmentation import Augment
from reader.windows import Lengths, Sizes, Windows
from shard_format import (
    Manifest,
    ShardSetError,
    SplitInfo,
    UsageError,
)

# What the first batch of a set at a URL waits for: 80 requests of 100 kB, or one batch.
_FIRST_BYTES = 8 << 20  # 8 MiB
# A window of a set at a URL takes some 0.1 s even where it is small, as those of texts are. Python
# calls wait for it, so not too many.
_AHEAD_BYTES = 64 << 20  # 64 MiB
_MOST_AHEAD = 4


@dataclasses.dataclass(frozen=True)
class Opened:
    """A split that is ready to be read.

    Attributes:
        pipeline: Input pipeline of its batches.
        info: Description of the stream.
        steps_per_epoch: Number of batches of one pass.
        copies: Copies that are made on local disk while the split is read; one, or none.
        files: Local files that are read; None where records come from memory or the network.
        skipped: Damaged records that are skipped while the stream is read.
        earlier: Root hashes of the set at its earlier generations, the first one first.
    """

    pipeline: InputPipeline
    info: StreamInfo
    steps_per_epoch: int
    copies: tuple[Copies, ...]
    files: Files | None
    skipped: SkippedRecords
    earlier: tuple[str, ...] = ()


def load(
    directory: Directory,
    *,
    split: str = "train",
    generation: int | None = None,
    batch_size: int = REQUIRED,
    shuffle: str = "window",
    seed: int = 0,
    epochs: int | None = None,
    remainder: str | None = None,
    on_corrupt: str = "raise",
    worker: tuple[int, int] = (0, 1),
    state: Mapping[str, Any] | None = None,
    streams: int | None = None,
    sample: str | Mapping[str, float] | None = None,
    buckets: int = 1,
    image_size: int | None = None,
    augment: Augment = "none",
    label: str | tuple[str, ...] | None = None,
    features: tuple[str, ...] = (),
    dtype: str = "uint8",
    normalize: str = "none",
    max_tokens: int | None = None,
    pad: str = "longest",
    synonyms: PathLike | None = None,
    cache: str = "auto",
    cache_dir: PathLike | None = None,
    cache_stage: str = "stored",
    cache_limit: int | str | None = None,
    on_cached: OnCached = ignore_progress,
    threads: int | None = None,
    ram_budget: int | None = None,
    service: str | None = None,
) -> Stream:
    """A stream over one split of a shard set, for `model.fit` or any loop over tf.data.

    Training: `load(d, batch_size=128, image_size=224, augment="standard")`, endless, and
    `model.fit(stream.dataset, steps_per_epoch=stream.steps_per_epoch, epochs=...)`.
    Evaluation: `load(d, split="test", batch_size=128, image_size=224, shuffle="off", epochs=1)`.

    The batches depend on the set (`info.record_type`):

        image    (images [batch, height, width, 3] uint8 or float32, labels)
        text     (texts [batch] string, labels)
        tokens   (ids [batch, length] int64, labels); see max_tokens, pad and buckets
        packed   ({"tokens", "segments", "positions"}: [batch, N - 1] int64 each, targets
                 [batch, N - 1] int64, weights [batch, N - 1] float32); the targets are the next
                 tokens, the weights 0 where the target is padding or of another document. A model
                 must attend within a segment only.

    Labels are [batch] int64, or [batch, num_classes] float32 of zeros and ones where a record has
    any number of them; the batches of a set without labels are the inputs alone. Where `augment`
    mixes records, labels are [batch, num_classes] float32 too, the shares of the classes. With
    several names in `label` they are a dictionary by name, and with `features` the inputs are one,
    see docs/reading.md.

    A damaged record ends the iteration with a tf.errors.UnknownError that names file, byte offset
    and record id; so does a file that cannot be read. `numpy()` and `torch()` raise it as a
    DamageError or ShardSetError. With cache="memory", and where images are cached decoded, every
    byte is read here, and damage is a DamageError of this call. Workers of a service raise
    tf.errors.DataLossError, without the file.
    """
    options = ReadOptions(
        split=split,
        generation=generation,
        batch_size=batch_size,
        shuffle=shuffle,
        seed=seed,
        epochs=epochs,
        remainder=remainder,
        on_corrupt=on_corrupt,
        worker=worker,
        state=state,
        streams=streams,
        sample=sample,
        buckets=buckets,
        image_size=image_size,
        augment=augment,
        label=label,
        features=features,
        dtype=dtype,
        normalize=normalize,
        max_tokens=max_tokens,
        pad=pad,
        synonyms=synonyms,
        cache=cache,
        cache_dir=cache_dir,
        cache_stage=cache_stage,
        cache_limit=cache_limit,
        on_cached=on_cached,
        threads=threads,
        ram_budget=ram_budget,
        service=service,
    )
    address = None
    if service is not None:
        check_directory(directory)
        address = parse_address(service, WHERE)
        check_answers(address, WHERE)
    # On the CPU even where there is a GPU: tf.data runs there, and tensors would be copied twice.
    with tf.device("/CPU:0"):
        opened = open_split(directory, options)
        steps = opened.steps_per_epoch
        order = order_of(opened.info.root_hash, options)
        check_generation(state, opened.earlier)
        start = read_state(state, order, steps, epochs)
        batches = int(tf.data.INFINITE_CARDINALITY)  # makes Keras ask for steps_per_epoch
        if epochs is not None:
            batches = (epochs - start.epoch) * steps - start.step
        if address is not None:
            dataset = without_autograph(build_served)(
                opened.pipeline, address, steps, start, batches
            )
            return ServedStream(dataset, steps, opened.info, order, start, opened.copies)
        position = start.step * batch_size
        dataset = without_autograph(build_dataset)(opened.pipeline, start.epoch, position, batches)
    return Stream(
        dataset,
        steps,
        opened.info,
        order,
        start,
        opened.copies,
        options=options,
        directory=directory,
        pipeline=opened.pipeline,
        losses=(opened.skipped,),
    )


load.__doc__ = f"""{load.__doc__}
    Args:
        directory: The shard set, or its URL: s3://, gs://, abfs:// or hdfs://. The manifest and
            the index of a set at a URL are copied to cache_dir; what is not copied is read over the
            network, a chunk of up to 4 MiB a request, ahead of use.
{described(ReadOptions)}

    Raises:
        UsageError: An option is wrong, or does not fit the set, or no service answers.
        ShardSetError: There is no shard set, or this version cannot read it.
        DamageError: The set is not what its manifest says.
    """


def open_split(directory: Directory, options: ReadOptions) -> Opened:
    """Opens one split of a set.

    Args:
        directory: Directory of the set, or its URL.
        options: Options of `reader.load`.

    Raises:
        UsageError: An option does not fit the set.
        ShardSetError: There is no shard set, or it cannot be read by this version.
        DamageError: The set is not what its manifest says.
    """
    place = locate_dataset(directory, options)
    root, manifest = place.root, place.manifest
    split = _checked_split(manifest, options, root)
    geometry = _checked_geometry(split, options, root)
    # Of a set at a URL, an index in parts is not copied.
    is_large = bool(split.index)
    index = open_lazily(place.source if is_large else root, manifest, options.split)
    opened = OpenSplit(root, manifest, options.split, index, geometry)
    parser = _parser_factory(manifest, root)(opened, options)
    labels = find_labels(opened, options.label)
    skipped = SkippedRecords()
    on_bytes = _counter(split.bytes, options.on_cached)
    choice, filled = fill_cache(place, opened, options, on_bytes, skipped)
    if filled.decoder is not None:  # only records of images have one
        parser = dataclasses.replace(cast(ImageParser, parser), decoder=filled.decoder)
    sampler: ClassSampler | None = None
    if options.sample is not None:
        # Of several labels, the first that was asked for.
        label = next(iter(labels.features.values()), None)
        column = label_values(opened, label)
        sampler = make_sampler(options.sample, label, column, options.seed, opened.where)
    emitted = emitted_records(split.records, options.batch_size, str(options.remainder))
    share = WorkerShard(geometry, *options.worker, emitted)
    is_served = options.service is not None
    lengths: Lengths | None = None
    if isinstance(parser, BatchParser) and parser.length_column is not None:
        lengths = Lengths(
            opened.columns((parser.length_column,), portable=is_served),
            parser.length_column,
            options.max_tokens,
        )
    sizes: Sizes | None = None
    has_sizes = set(Sizes.COLUMNS) <= set(index.column_names)
    if isinstance(parser, RecordParser) and parser.boxes_many and has_sizes:
        sizes = Sizes(opened.columns(Sizes.COLUMNS, portable=is_served))
    windows = Windows(
        share,
        filled.record_reader,
        options,
        lengths,
        sampler,
        sizes,
        portable=filled.portable,
        kept=filled.kept,
    )
    if filled.from_url:
        windows = _hiding_latency(windows, split.bytes / split.records)
    return Opened(
        pipeline=InputPipeline(windows, parser, options),
        info=stream_info(opened, options, parser, labels, choice),
        steps_per_epoch=-(-emitted // options.batch_size),
        copies=() if filled.copies is None else (filled.copies,),
        files=filled.files,
        skipped=skipped,
        earlier=tuple(one.view for one in manifest.generations[:-1]),
    )


def _hiding_latency(windows: Windows, mean_bytes: float) -> Windows:
    """Windows of a set at a URL: the first one in parts, and small ones several at a time."""
    workers = windows.worker_shard.workers
    window_bytes = windows.worker_shard.geometry.window_records * mean_bytes / workers
    return dataclasses.replace(
        windows,
        first_records=max(
            1, int(_FIRST_BYTES // mean_bytes), windows.options.batch_size // workers
        ),
        ahead=max(1, min(_MOST_AHEAD, int(_AHEAD_BYTES // window_bytes))),
    )


def _checked_split(manifest: Manifest, options: ReadOptions, root: Path) -> SplitInfo:
    """The split, which has records enough for one batch.

    Raises:
        UsageError: There is no such split, or a batch is larger than it.
        ShardSetError: The split has no records.
    """
    check_choice("split", options.split, manifest.splits, root)
    split = manifest.splits[options.split]
    if not split.records:
        filled = [name for name, info in manifest.splits.items() if info.records]
        raise ShardSetError(
            f"Split {options.split!r} of {root} has no records. Read another one "
            f"({', '.join(filled) or 'all are empty'}), or build the set again with a larger share "
            "for it."
        )
    if options.remainder == "drop" and options.batch_size > split.records:
        raise UsageError(
            f"batch_size={options.batch_size} exceeds the {split.records} records of "
            f"{options.split!r} of {root}. Pass a smaller one, or "
            'remainder="pad" or "wrap", or epochs=1, where the last batch may be smaller.'
        )
    return split


def _checked_geometry(split: SplitInfo, options: ReadOptions, root: Path) -> Geometry:
    geometry = make_geometry(split, cast(int, options.streams))
    if geometry.streams % options.worker[1]:
        raise UsageError(
            f"{options.worker[1]} workers do not divide the {geometry.streams} canonical streams "
            f"that records as large as those of {root} allow. Use fewer workers, or store smaller "
            "records."
        )
    return geometry


def _counter(total: int, on_cached: Callable[[int, int], None]) -> Callable[[int], None]:
    """Adds up the sizes of parts."""
    done = 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        on_cached(done, total)

    return count


def _parser_factory(manifest: Manifest, root: Path) -> ParserFactory:
    name = kind_of(manifest.schema)
    if name not in RECORD_TYPES:
        raise ShardSetError(
            f"Records of {root} are of the unknown type {name!r}. This version reads records of "
            f"type {', '.join(RECORD_TYPES)}; install one that knows it."
        )
    return RECORD_TYPES[name]
