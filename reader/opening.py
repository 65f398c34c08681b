"""A split that is ready to be read, from a directory and the options of `reader.load`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from foundation.options import check_choice
from reader.cache.copying import Copies
from reader.cache.filling import Files, Filled, fill_cache
from reader.cache.locations import locate_dataset
from reader.damage import SkippedRecords
from reader.loader import BatchLoader
from reader.options import BALANCED, Directory, ReadOptions, kind_of
from reader.order.class_sampling import make_sampler
from reader.order.geometry import Geometry, WorkerShard, emitted_records, make_geometry
from reader.order.numpy_order import Int64Array
from reader.order.sampling import Sampler, make_weight_sampler
from reader.record_types import RECORD_TYPES, ParserFactory
from reader.record_types.features import find_labels, label_values
from reader.record_types.image import ImageParser
from reader.records.open_split import OpenSplit
from reader.records.selection import class_names_of, missing_columns, selected_records
from reader.records.split_index import open_lazily
from reader.stream import StreamInfo, stream_info
from reader.windows import Windows
from shard_format import (
    Manifest,
    ShardSetError,
    SplitInfo,
    UsageError,
)

if TYPE_CHECKING:
    from reader.graph.pipeline import InputPipeline

# What the first batch waits for: some records, or one batch. A window has thousands, and with
# shuffle="full" each is read by itself.
_FIRST_RECORDS = 256
# Of a set at a URL: 80 requests of 100 kB, or one batch.
_FIRST_BYTES = 8 << 20  # 8 MiB
# A window of a set at a URL takes some 0.1 s even where it is small, as those of texts are. Python
# calls wait for it, so not too many.
_AHEAD_BYTES = 64 << 20  # 64 MiB
_MOST_AHEAD = 4


@dataclasses.dataclass(frozen=True)
class Opened:
    """A split that is ready to be read.

    Attributes:
        split: The split.
        loader: BatchLoader of its batches.
        filled: Cache that records are read from.
        info: Description of the stream.
        steps_per_epoch: Number of batches of one pass.
        skipped: Damaged records that are skipped while the stream is read.
        earlier: Root hashes of the set at its earlier generations, the first one first.
    """

    split: OpenSplit
    loader: BatchLoader
    filled: Filled
    info: StreamInfo
    steps_per_epoch: int
    skipped: SkippedRecords
    earlier: tuple[str, ...] = ()

    @property
    def copies(self) -> tuple[Copies, ...]:
        """Copies that are made on local disk while the split is read; one, or none."""
        return () if self.filled.copies is None else (self.filled.copies,)

    @property
    def files(self) -> Files | None:
        """Local files that are read; None where records come from memory or the network."""
        return self.filled.files

    @functools.cached_property
    def pipeline(self) -> InputPipeline:
        """Input pipeline of the same batches in TensorFlow."""
        from reader.graph.building import graph_pipeline

        return graph_pipeline(self.split, self.loader, self.filled)


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
    # Of a set at a URL, an index in parts is not copied.
    is_large = bool(split.index)
    index = open_lazily(place.source if is_large else root, manifest, options.split)
    selection: Int64Array | None = None
    if options.where is not None:
        where = root / manifest.index_file(options.split)
        schema = manifest.schema
        names, missing = class_names_of(schema), missing_columns(schema, index, root)
        selection = selected_records(options.where, index, names, where, missing)
        if not len(selection):
            raise UsageError(
                f"where={options.where!r} selects none of the {split.records} records of {where}. "
                f"Columns are {', '.join(index.column_names)}; widen the condition."
            )
        _check_batch(len(selection), f"records that where={options.where!r} selects", options, root)
    geometry = _checked_geometry(split, options, root, selection)
    opened = OpenSplit(root, manifest, options.split, index, geometry, selection)
    parser = _parser_factory(manifest, root)(opened, options)
    labels = find_labels(opened, options.label)
    skipped = SkippedRecords()
    on_bytes = _counter(split.bytes, options.on_cached)
    choice, filled = fill_cache(place, opened, options, on_bytes, skipped)
    if filled.pixels is not None and isinstance(parser, ImageParser):
        parser = parser.with_pixels(filled.pixels)
    sampler: Sampler | None = None
    by_column = isinstance(options.sample, str) and options.sample != BALANCED
    if by_column:
        sampler = _column_sampler(str(options.sample), opened, options.seed)
    elif options.sample is not None:
        # Of several labels, the first that was asked for.
        label = next(iter(labels.features.values()), None)
        column = label_values(opened, label)
        sampler = make_sampler(options.sample, label, column, options.seed, opened.where)
    emitted = emitted_records(geometry.records, options.batch_size, str(options.remainder))
    share = WorkerShard(geometry, *options.worker, emitted)
    windows = Windows(
        share,
        filled.record_reader,
        parser.features,
        options,
        parser.lengths,
        sampler,
        selection,
        first_records=max(_FIRST_RECORDS, options.batch_size // share.workers),
        kept=filled.kept,
    )
    if filled.from_url:
        windows = _hiding_latency(windows, split.bytes / split.records)
    return Opened(
        split=opened,
        loader=BatchLoader(windows, parser, options),
        filled=filled,
        info=stream_info(opened, options, parser, labels, choice),
        steps_per_epoch=-(-emitted // options.batch_size),
        skipped=skipped,
        earlier=tuple(one.view for one in manifest.generations[:-1]),
    )


def _column_sampler(name: str, opened: OpenSplit, seed: int) -> Sampler:
    """The sampler by a column of the index.

    Raises:
        UsageError: There is no such column, or it has no weights.
    """
    index, missing = opened.index, missing_columns(opened.schema, opened.index, opened.root)
    if name in missing:
        columns = ", ".join(index.column_names)
        raise UsageError(
            f"sample={name!r} is no column of {opened.where}. Columns are {columns}.{missing[name]}"
        )
    check_choice("column in sample", name, [BALANCED, *index.column_names], opened.root)
    return make_weight_sampler(name, opened.column(name), seed, opened.where)


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
    _check_batch(split.records, "records", options, root)
    return split


def _check_batch(records: int, which: str, options: ReadOptions, root: Path) -> None:
    """Checks that there is a whole batch, where only whole ones are read.

    Raises:
        UsageError: There is none.
    """
    if options.remainder == "drop" and options.batch_size > records:
        raise UsageError(
            f"batch_size={options.batch_size} exceeds the {records} {which} of "
            f"{options.split!r} of {root}. Pass a smaller one, or "
            'remainder="pad" or "wrap", or epochs=1, where the last batch may be smaller.'
        )


def _checked_geometry(
    split: SplitInfo, options: ReadOptions, root: Path, selection: Int64Array | None
) -> Geometry:
    records = None if selection is None else len(selection)
    geometry = make_geometry(split, cast(int, options.streams), records)
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
