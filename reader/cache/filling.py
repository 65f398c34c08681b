"""RecordReader from each kind of cache; one function for each."""

from __future__ import annotations

import dataclasses
import functools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from reader.cache.checked_pixels import CheckedPixels
from reader.cache.checked_records import CheckedRecordReader
from reader.cache.copying import Copies, Wanted, discard_cut, locked
from reader.cache.decoding import (
    PIXELS,
    Pixels,
    decoded_bytes,
    decoded_name,
    decoded_records,
    pixel_bytes,
    write_decoded,
)
from reader.cache.inventory import PART, Item, delete, is_whole, part_directory
from reader.cache.locations import DatasetLocation, failed, missing, unreachable
from reader.cache.pixels import empty_pixels, pixels_in_file, pixels_in_memory
from reader.cache.readers import ContainedRecordReader, CopiedRecordReader, LeasedRecords
from reader.cache.resources import shown_bytes
from reader.cache.stored_records import collect_in_memory, stored_records
from reader.damage import SkippedRecords
from reader.opened_set import OpenedSet
from reader.record_types import OpenSplit
from reader.records.decoders import Decoder
from reader.records.index_columns import IndexColumns
from reader.records.readers import (
    LOCATION_COLUMNS,
    FileRecordReader,
    RecordReader,
    read_into_memory,
)
from reader.records.split_files import check_shards
from shard_format import (
    DamageError,
    ShardmillError,
    ShardSetError,
    SplitInfo,
    load_manifest,
    open_index,
)
from shard_format.naming import index_file

OnBytes = Callable[[int], None]

_CHECKED = 1024  # records that are checked at a time


@dataclasses.dataclass(frozen=True)
class Filling:
    """The split to cache.

    Attributes:
        place: The set.
        opened: The split.
        name: Of the split.
        on_bytes: Called with the size of every part of the split that was read, where filling the
            cache comes before the first batch.
        skips: Whether damaged records are skipped.
        skipped: Those that are.
    """

    place: DatasetLocation
    opened: OpenSplit
    name: str
    on_bytes: OnBytes
    skips: bool
    skipped: SkippedRecords

    @functools.cached_property
    def opened_set(self) -> OpenedSet:
        """The set, whose records may be replaced while they are read."""
        return OpenedSet(self.place.source, self.place.manifest.root_hash)

    @property
    def split(self) -> SplitInfo:
        """The split in the manifest."""
        return self.place.manifest.splits[self.name]

    def shards(self) -> list[Path]:
        """The paths of the shards of a local set, which exist unless damage is skipped.

        Raises:
            ShardSetError: A shard is missing.
            DamageError: A shard has another size than the manifest says.
        """
        if self.skips:
            return [self.place.root / shard.file for shard in self.split.shards]
        return check_shards(self.place.root, self.split)


@dataclasses.dataclass(frozen=True)
class Files:
    """The files that are read, for whoever measures them.

    Attributes:
        paths: Of the shards, in the split's order.
        index: The offsets of the records in them.
    """

    paths: list[Path]
    index: Path


@dataclasses.dataclass(frozen=True)
class Filled:
    """A cache that is ready to be read.

    Attributes:
        record_reader: Reads the records.
        remark: Ends the sentence that explains the choice of the cache; may be empty.
        copies: Copies in progress, or None.
        files: What is read of this machine; None where records come from memory or the network, or
            are images that are decoded.
        decoder: Of images that are decoded, in place of the one for their encoding.
        from_url: Whether records come from a URL, with the latency of one.
    """

    record_reader: RecordReader
    remark: str = ""
    copies: Copies | None = None
    files: Files | None = None
    decoder: Decoder | None = None
    from_url: bool = False


def no_cache(filling: Filling) -> Filled:
    """Records are read from their source each time."""
    place = filling.place
    record_reader = _from_source(filling, _copy_paths(filling))
    if place.is_remote:
        return Filled(record_reader, from_url=True)
    return Filled(record_reader, files=Files(filling.shards(), filling.opened.where))


def stored_in_memory(filling: Filling) -> Filled:
    """All bytes of the split in one tensor."""
    place, split = filling.place, filling.split
    if not place.is_remote:
        try:
            return Filled(read_into_memory(filling.shards(), split))
        except (tf.errors.DataLossError, tf.errors.NotFoundError):
            return _checked_in_memory(filling)
    records = (
        record
        for shard in split.shards
        for record in stored_records(place.source, shard, filling.on_bytes)
    )
    try:
        return _in_memory(filling, records)
    except ShardmillError as error:
        if not filling.skips and not isinstance(error, DamageError):
            raise
        found = _checked_in_memory(filling)  # raises an error that names the record
        if not filling.skips:
            raise
        return found


def _checked_in_memory(filling: Filling) -> Filled:
    """All records in memory, of a damaged split: the first damage is raised, or all is skipped."""
    checked, sources = _checked(filling, []), []

    def records() -> Iterator[bytes]:
        for begin in range(0, filling.split.records, _CHECKED):
            numbers = np.arange(begin, min(begin + _CHECKED, filling.split.records))
            if filling.skips:
                serialized, own = checked.read_skipping_now(numbers)
            else:
                serialized, own = checked.read_now(numbers), numbers
            sources.append(own)
            yield from serialized

    filled = _in_memory(filling, records())
    found = dataclasses.replace(filled.record_reader, sources=tf.constant(np.concatenate(sources)))  # type: ignore[type-var]
    return dataclasses.replace(filled, record_reader=found)


def decoded_in_memory(filling: Filling) -> Filled:
    """All images of the split as pixels in one array; of a damaged split they are not decoded."""
    try:
        return _decoded_in_memory(filling)
    except ShardmillError as error:
        if not filling.skips:
            raise
        return _undecoded(stored_in_memory(filling), error)


def _undecoded(filled: Filled, error: ShardmillError) -> Filled:
    return dataclasses.replace(filled, remark=f"; but images are not kept decoded: {error}")


def _decoded_in_memory(filling: Filling) -> Filled:
    place, split = filling.place, filling.split
    pixels = empty_pixels(pixel_bytes(filling.opened))
    used = 0

    def keep(image: Pixels) -> int:
        nonlocal used
        begin, used = used, used + image.size
        if used > pixels.size:
            raise DamageError(
                f"Images are larger than the index says in {filling.opened.where}. Run 'shardmill "
                'verify\', or pass cache_stage="stored".'
            )
        pixels[begin:used] = image.ravel()
        return begin

    records = decoded_records(
        place.source, split.shards, place.manifest.schema, keep, filling.on_bytes
    )
    filled = _in_memory(filling, records)
    return dataclasses.replace(filled, decoder=pixels_in_memory(pixels))


def stored_on_disk(filling: Filling) -> Filled:
    """Copies of as many shards as fit, made while the split is read from its source."""
    place, split = filling.place, filling.split
    if not place.is_remote:
        filling.shards()
    paths = _copy_paths(filling)
    items = [
        Item(path.relative_to(place.cache_dir).as_posix(), shard.bytes)
        for path, shard in zip(paths, split.shards, strict=True)
    ]
    lease = place.take(items, partial=True)
    leased = [item.name in lease.names for item in items]
    wanted = [
        Wanted(shard.file, path, shard.bytes, shard.sha256)
        for path, shard, own in zip(paths, split.shards, leased, strict=True)
        if own
    ]
    absent = [file for file in wanted if not file.is_there]
    try:
        for file in absent:
            discard_cut(file)
    except OSError as error:
        raise failed(error, str(place.source), place.cache_dir) from error
    copies = Copies(place.source, absent) if absent else None
    remark = ""
    if len(wanted) < len(items):
        remark = (
            f"; {len(wanted)} of its {len(items)} shards fit into the limit of "
            f"{shown_bytes(lease.limit)}, the others are read from their source"
        )
    record_reader = _from_source(filling, paths)
    files: Files | None = None
    if not place.is_remote or all(leased):
        chosen = [
            path if own else place.root / shard.file
            for path, shard, own in zip(paths, split.shards, leased, strict=True)
        ]
        copied = ContainedRecordReader(_files(filling, chosen), _checked(filling, paths))
        files = Files(chosen, filling.opened.where) if not absent else None
        record_reader = (
            CopiedRecordReader(record_reader, copied, [f.path for f in absent])
            if absent
            else copied
        )
    from_url = place.is_remote and files is None
    return Filled(
        LeasedRecords(record_reader, lease, copies), remark, copies, files, from_url=from_url
    )


def decoded_on_disk(filling: Filling) -> Filled:
    """A copy of the split with its images as pixels; of a damaged split there is none."""
    try:
        return _decoded_on_disk(filling)
    except (ShardSetError, DamageError) as error:
        if not filling.skips:
            raise
        return _undecoded(no_cache(filling), error)


def _decoded_on_disk(filling: Filling) -> Filled:
    """A shard set of the split with its images as pixels, written before the first batch."""
    place = filling.place
    target = place.cache_root / decoded_name() / filling.name
    size = decoded_bytes(filling.opened, filling.split)
    item = Item(target.relative_to(place.cache_dir).as_posix(), size)
    lease = place.take([item], needed_for="a copy of decoded images on disk")
    try:
        part = target.with_name(target.name + PART)
        with locked(part):  # others wait until it is there
            if not _is_whole(target):
                delete(target)
                _write_decoded(filling, part_directory(part), target)
    except FileNotFoundError as error:
        raise ShardSetError(missing(str(error.filename))) from error
    except OSError as error:
        raise failed(error, str(place.source), place.cache_dir) from error
    manifest = load_manifest(target)
    split = manifest.splits[filling.name]
    index = IndexColumns(target / index_file(filling.name), LOCATION_COLUMNS)
    run_records = filling.opened.geometry.chunk_records
    paths = check_shards(target, split)
    rows = open_index(target / index_file(filling.name))
    advice = "It is a cached copy: run 'shardmill cache --clear', and it is made again."
    where = target / index_file(filling.name)
    of_copy = CheckedRecordReader(target, split, rows, where, [], filling.skipped, advice)
    slim = ContainedRecordReader(FileRecordReader(paths, split, index, run_records), of_copy)
    (image,) = (one for one in filling.opened.schema.features if one.kind == "image")
    record_reader = CheckedPixels(slim, target, rows, _checked(filling, []), image)
    return Filled(LeasedRecords(record_reader, lease), decoder=pixels_in_file(target / PIXELS))


def _is_whole(target: Path) -> bool:
    """Whether a decoded split is there, and no file of it was cut or lost since."""
    try:
        manifest = load_manifest(target)
    except ShardmillError:
        return False
    sizes = {
        shard.file: shard.bytes for split in manifest.splits.values() for shard in split.shards
    }
    sizes |= {file: info["bytes"] for file, info in manifest.files.items()}
    return all(is_whole(target / file, size) for file, size in sizes.items())


def _write_decoded(filling: Filling, writing: Path, target: Path) -> None:
    """Writes under one name and gives it the other when it is whole."""
    shutil.rmtree(writing, ignore_errors=True)  # of a process that was killed meanwhile
    writing.mkdir()
    try:
        write_decoded(filling.place.source, filling.opened, filling.name, writing, filling.on_bytes)
        writing.rename(target)
    except BaseException:
        shutil.rmtree(writing, ignore_errors=True)
        raise


# (cache, stage) -> what fills it.
CACHES = {
    ("off", "stored"): no_cache,
    ("memory", "stored"): stored_in_memory,
    ("memory", "decoded"): decoded_in_memory,
    ("disk", "stored"): stored_on_disk,
    ("disk", "decoded"): decoded_on_disk,
}


def _from_source(filling: Filling, copies: list[Path]) -> RecordReader:
    checked = _checked(filling, copies)
    if filling.place.is_remote:
        return checked
    contained = ContainedRecordReader(_files(filling, filling.shards()), checked)
    return LeasedRecords(contained, filling.opened_set)


def _checked(filling: Filling, copies: list[Path]) -> CheckedRecordReader:
    place, index = filling.place, filling.opened.index
    return CheckedRecordReader(
        place.source,
        filling.split,
        index,
        filling.opened.where,
        copies,
        filling.skipped,
        opened=filling.opened_set,
    )


def _files(filling: Filling, paths: list[Path]) -> FileRecordReader:
    index = IndexColumns(filling.opened.where, LOCATION_COLUMNS)
    return FileRecordReader(paths, filling.split, index, filling.opened.geometry.chunk_records)


def _copy_paths(filling: Filling) -> list[Path]:
    return [filling.place.cache_root / shard.file for shard in filling.split.shards]


def _in_memory(filling: Filling, records: Iterator[bytes]) -> Filled:
    place = filling.place
    where = str(place.source)
    try:
        return Filled(collect_in_memory(records, filling.split.records, where))
    except FileNotFoundError as error:
        raise ShardSetError(missing(str(error.filename or where))) from error
    except OSError as error:
        raise ShardSetError(unreachable(where, error)) from error
