"""The record reader of a split from each kind of cache; one function for each."""

from __future__ import annotations

import dataclasses
import functools
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from reader.cache.checked_records import CheckedRecordReader
from reader.cache.choosing import (
    NETWORK,
    REMOTE,
    CacheChoice,
    Situation,
    available_memory_bytes,
    choose_cache,
    free_disk_bytes,
    on_network,
    shown_bytes,
)
from reader.cache.copying import Copies, Wanted, locked
from reader.cache.decoding import (
    decoded_bytes,
    decoded_name,
    decoded_records,
    pixel_bytes,
    write_decoded,
)
from reader.cache.inventory import PART, Item, delete, is_whole, part_directory
from reader.cache.locations import DatasetLocation, failed
from reader.cache.pixels import (
    PIXELS,
    CheckedPixels,
    DecodedPixels,
    Pixels,
    empty_pixels,
)
from reader.damage import SkippedRecords
from reader.opened_set import OpenedSet
from reader.options import ReadOptions
from reader.order.numpy_order import Int64Array
from reader.records.open_split import OpenSplit
from reader.records.readers import MemoryRecordReader, RecordReader
from reader.records.split_files import ShardPaths, check_shards
from reader.records.split_index import SplitIndex, WholeIndex
from shard_format import (
    DamageError,
    ShardmillError,
    ShardSetError,
    SplitInfo,
    load_manifest,
    open_split_index,
)
from shard_format.example_parser import Examples, join_examples, one_example
from shard_format.shard_list import shard_numbers

_READ_BYTES = 64 << 20  # 64 MiB of records at a time on their way into a cache


@dataclasses.dataclass(frozen=True)
class Filling:
    """The split to cache.

    Attributes:
        place: The set.
        opened: The split.
        name: Name of the split.
        on_bytes: Function called with the size of every part of the split that was read, where
            filling the cache comes before the first batch.
        skips: Whether damaged records are skipped.
        skipped: Damaged records that were skipped.
    """

    place: DatasetLocation
    opened: OpenSplit
    name: str
    on_bytes: Callable[[int], None]
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

    @property
    def copies(self) -> Sequence[Path]:
        """Paths of the copies of the shards, whether they exist or not."""
        return ShardPaths(self.place.cache_root, self.split)

    def shards(self) -> Sequence[Path]:
        """The paths of the shards of a local set, which exist unless damage is skipped.

        Raises:
            ShardSetError: A shard is missing.
            DamageError: A shard has another size than the manifest says.
        """
        if self.skips:
            return ShardPaths(self.place.root, self.split)
        return check_shards(self.place.root, self.split)

    @functools.cached_property
    def checked(self) -> CheckedRecordReader:
        """Reader of the records of the set, or of copies of them."""
        return CheckedRecordReader(
            self.place.source,
            self.split,
            self.opened.index,
            self.opened.where,
            self.copies,
            self.skipped,
            opened=self.opened_set,
        )

    def in_order(
        self, begin: int, end: int, *, skipping: bool
    ) -> Iterator[tuple[Examples, Int64Array]]:
        """The records [begin, end), and their numbers, some at a time.

        Raises:
            ShardSetError: A shard is missing, or cannot be reached.
            DamageError: A record is damaged, and damage is not skipped.
        """
        step = max(1, _READ_BYTES * self.split.records // self.split.bytes)
        for first in range(begin, end, step):
            numbers = sources = np.arange(first, min(first + step, end))
            if skipping:
                examples, sources = self.checked.read_skipping(numbers)
            else:
                examples = self.checked.read(numbers)
            self.on_bytes(int(self.opened.index.take(("length",), numbers)[0].sum()))
            yield examples, sources

    def whole_records(self, begin: int, end: int) -> Iterator[bytes]:
        """The records [begin, end), one by one; damage is raised as by `in_order`."""
        for examples, _ in self.in_order(begin, end, skipping=False):
            yield from map(bytes, examples)


@dataclasses.dataclass(frozen=True)
class Files:
    """The files that are read, for whoever measures them.

    Attributes:
        paths: Paths of the shards, in the split's order.
        index: Index with the offsets of the records in them.
    """

    paths: Sequence[Path]
    index: SplitIndex


@dataclasses.dataclass(frozen=True)
class Filled:
    """A cache that is ready to be read.

    Attributes:
        record_reader: Reader of the records.
        remark: End of the sentence that explains the choice of the cache; may be empty.
        copies: Copies in progress, or None.
        files: Files of this machine that are read; None where records come from memory or the
            network, or are images that are decoded.
        pixels: Decoded images, which the records have the places of; None where they are encoded.
        from_url: Whether records come from a URL, with the latency of one.
        kept: What must live as long as records may be read, such as leases.
    """

    record_reader: RecordReader
    remark: str = ""
    copies: Copies | None = None
    files: Files | None = None
    pixels: DecodedPixels | None = None
    from_url: bool = False
    kept: tuple[object, ...] = ()


def fill_cache(
    place: DatasetLocation,
    opened: OpenSplit,
    options: ReadOptions,
    on_bytes: Callable[[int], None],
    skipped: SkippedRecords,
) -> tuple[CacheChoice, Filled]:
    """Chooses the cache of a split, and fills it as far as that comes before the first batch.

    Args:
        place: The set.
        opened: The split.
        options: Options of `reader.load`.
        on_bytes: Function called with the size of every part of the split that was read for it.
        skipped: Counter of the records that are skipped, now and while the split is read.

    Raises:
        UsageError: The cache has no room, or its directory cannot be written to.
        ShardSetError: A shard is missing, or cannot be reached.
        DamageError: A shard is not what its manifest says, or the index lacks a column.
    """
    split, stage = opened.manifest.splits[options.split], options.cache_stage
    if all(feature.encoding in ("", "raw") for feature in opened.schema.features):
        stage = "stored"  # as pixels
    disk = free_disk_bytes(place.cache_dir)
    situation = Situation(
        size=decoded_bytes(opened, split) if stage == "decoded" else split.bytes,
        stage=stage,
        epochs=options.epochs,
        memory=available_memory_bytes(),
        disk=disk if place.cache_limit is None else min(disk, place.cache_limit),
        slow=REMOTE if place.is_remote else NETWORK if on_network(place.root) else None,
        cache_dir=place.cache_dir,
    )
    choice = choose_cache(options.cache, situation)
    reason = choice.reason
    if stage != options.cache_stage:
        reason += "; the images are stored as pixels, so none is decoded"
    skips = options.on_corrupt == "skip"
    filling = Filling(place, opened, options.split, on_bytes, skips, skipped)
    filled = CACHES[choice.cache, choice.stage](filling)
    choice = dataclasses.replace(choice, reason=reason + filled.remark)
    return choice, dataclasses.replace(filled, kept=(*filled.kept, place.lease))


def no_cache(filling: Filling) -> Filled:
    """Records are read from their source each time."""
    if filling.place.is_remote:
        return Filled(filling.checked, from_url=True)
    files = Files(filling.shards(), filling.opened.index)
    return Filled(filling.checked, files=files, kept=(filling.opened_set,))


def stored_in_memory(filling: Filling) -> Filled:
    """All bytes of the split in one buffer."""
    if not filling.place.is_remote:
        filling.shards()
    sources: list[Int64Array] = []

    def parts() -> Iterator[Examples]:
        for examples, numbers in filling.in_order(0, filling.split.records, skipping=filling.skips):
            sources.append(numbers)
            yield examples

    examples = join_examples(parts())
    own = np.concatenate(sources) if filling.skips else None
    return Filled(MemoryRecordReader(examples, filling.place.root, own))


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
    opened = filling.opened
    pixels = empty_pixels(pixel_bytes(opened))
    used = 0

    def keep(image: Pixels) -> int:
        nonlocal used
        begin, used = used, used + image.size
        if used > pixels.size:
            raise DamageError(
                f"Images are larger than the index says in {opened.where}. Run 'shardmill "
                'verify\', or pass cache_stage="stored".'
            )
        pixels[begin:used] = image.ravel()
        return begin

    stored = filling.whole_records(0, filling.split.records)
    records = decoded_records(stored, opened.schema, keep, filling.place.source)
    examples = join_examples(map(one_example, records))
    reader = MemoryRecordReader(examples, filling.place.root)
    return Filled(reader, pixels=DecodedPixels(pixels))


def stored_on_disk(filling: Filling) -> Filled:
    """Copies of as many shards as fit, made while the split is read from its source."""
    place, split = filling.place, filling.split
    if not place.is_remote:
        filling.shards()
    paths, shards = filling.copies, split.shards
    if split.index:  # of so many shards, those that the disk has room for
        ends = np.cumsum(shard_numbers(shards, "bytes"))
        shards = shards[: int(np.searchsorted(ends, free_disk_bytes(place.cache_dir)))]
    items = [
        Item(path.relative_to(place.cache_dir).as_posix(), shard.bytes)
        for path, shard in zip(paths, shards, strict=False)
    ]
    lease = place.take(items, partial=True)
    leased = [item.name in lease.names for item in items]
    wanted = [
        Wanted(shard.file, path, shard.bytes, shard.sha256)
        for path, shard, own in zip(paths, shards, leased, strict=False)
        if own
    ]
    absent = [file for file in wanted if not file.is_there]
    copies = Copies(place.source, absent) if absent else None
    remark = ""
    if len(wanted) < len(paths):
        remark = (
            f"; {len(wanted)} of its {len(paths)} shards fit into the limit of "
            f"{shown_bytes(lease.limit)}, the others are read from their source"
        )
    files: Files | None = None
    if not absent and len(items) == len(paths) and (not place.is_remote or all(leased)):
        chosen = [
            path if own else place.root / shard.file
            for path, shard, own in zip(paths, shards, leased, strict=True)
        ]
        files = Files(chosen, filling.opened.index)
    return Filled(
        filling.checked,
        remark,
        copies,
        files,
        from_url=place.is_remote and files is None,
        kept=(lease, copies),
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
    except OSError as error:
        raise failed(error, str(place.source), place.cache_dir) from error
    copy = load_manifest(target)
    split, where = copy.splits[filling.name], target / copy.index_file(filling.name)
    rows = open_split_index(target, copy, filling.name)
    advice = "It is a cached copy: run 'shardmill cache --clear', and it is made again."
    records = CheckedRecordReader(
        target, split, WholeIndex(rows), where, [], filling.skipped, advice
    )
    (image,) = (one for one in filling.opened.schema.features if one.kind == "image")
    record_reader = CheckedPixels(records, target, rows, filling.checked, image)
    pixels = DecodedPixels(np.memmap(target / PIXELS, np.uint8, "r"), target / PIXELS)
    return Filled(record_reader, pixels=pixels, kept=(lease,))


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
        source = filling.place.source
        write_decoded(filling.opened, filling.name, writing, filling.whole_records, source)
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
