"""Stage 1, list: the corpus as a table of records, cut into work units.

The table is a file; a unit is a range of its rows. So a million paths never pass through Beam.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.changes import EXCLUDED_KEY, SourceSummaries, note_changes
from beam_jobs.columns import int64
from beam_jobs.corpus.discovery import expand_globs
from beam_jobs.corpus.item_table import ITEM_SCHEMA, item_batch, items_in
from beam_jobs.corpus.label_pattern import guess_pattern
from beam_jobs.corpus.listing import CorpusListing
from beam_jobs.corpus.names import Selection
from beam_jobs.corpus.record import SourceItem
from beam_jobs.corpus.replacements import before_replacement
from beam_jobs.corpus.schema_inference import check_companions
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.command import command_line
from beam_jobs.options.values import splits_are_given
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.staging.removed import excluded_by
from beam_jobs.staging.seen_items import (
    ItemHashWriter,
    KnownItems,
    item_hash_writer,
    item_identity,
    items_of,
    reading_key,
)
from beam_jobs.staging.units import Unit, aimed_unit_bytes, power_of_two
from beam_jobs.workspace import Workspace, read_batches, read_table, write_table
from foundation import storage
from foundation.storage import Place, RandomAccessFile
from foundation.wording import parse_size, some_of
from shard_format import InputError, id_hash, load_manifest

# Raised whenever the files of a staged unit change their layout.
UNIT_VERSION = 3
# Of jobs with --labels: units of earlier versions have the bytes of files without a row.
_LABELLED = {"files_without_row": "names"}

_UNIT_SCHEMA = pa.schema(
    [pa.field("key", pa.string())]
    + [pa.field(name, pa.int64()) for name in Unit._fields if name != "key"]
)
_MAGIC_BYTES = 8  # before the schema, in Arrow's IPC file format
_BATCH_ROWS = 2048  # rows per Arrow record batch, a kilobyte each as Python objects
_CHECK_BYTES = 1 << 20  # 1 MiB of the listing in memory at a time
_UNIT_RECORDS = 1 << 12  # aimed at for tiny files, which bounds the rows of a unit in memory
_LONGEST_UNIT = 3  # times the aims: a unit ends there though no record's hash says so
_GUESSED_ROWS = 10_000  # whose names are searched for a class

_Row = TypeVar("_Row")


class Listing(NamedTuple):
    """The corpus as it was found.

    Attributes:
        items: Number of files, members of archives and splits, rejected ones included.
        bytes: Their bytes.
        ignored: Hidden files that were left out.
        build_id: Content address of the whole input with all options.
        inputs: What it is made of, see `beam_jobs.changes`.
        changes: What is staged anew because it changed, for the user; "" if nothing is known to.
        known: Items that earlier generations have read, and that are not read again.
        known_bytes: Their bytes.
        known_to: The last of these generations; -1 if there is none.
        unselected: Number of files that --include and --exclude left out.
    """

    items: int
    bytes: int
    ignored: int
    build_id: str
    inputs: dict[str, Any]
    changes: str = ""
    known: int = 0
    known_bytes: int = 0
    known_to: int = -1
    unselected: int = 0


def resolve_options(options: PreprocessOptions) -> PreprocessOptions:
    """The options with patterns expanded, and with the source and columns that "auto" means.

    Raises:
        InputError: A pattern matches nothing, SRC is ambiguous, or lacks a column.
    """
    options = dataclasses.replace(options, sources=tuple(expand_globs(options.sources)))
    return RECORD_TYPES[options.record_type](options).extractor.resolved()


def list_corpus(
    context: JobContext, on_progress: Callable[[int], None] = lambda items: None
) -> Listing:
    """Lists the sources into the workspace and cuts the listing into units.

    Args:
        context: The job.
        on_progress: Called with the number of items found so far.

    Raises:
        InputError: A source is missing, or there is nothing in it that could be used.
    """
    options, record_type, workspace = context.options, context.record_type, context.workspace
    extractor = record_type.extractor
    ignored: list[str] = []
    listing = CorpusListing(options, extractor, ignored.append)
    items = listing.items([storage.place_of(path) for path in options.sources])
    how = options.reading()
    seen = SeenItemFilter(options, reading_key(how))
    listed = _write_listing(items, seen, workspace, on_progress)
    if not seen.known:
        _check_not_empty(context, listed)
    if extractor.groups_members and not options.only_items:  # a set has them otherwise
        members = (item for item in _items_in(workspace.listing) if item.locator.container)
        check_companions(members, options, extractor, workspace.scratch_file())
    unit_bytes = (
        parse_size("--unit-size", options.unit_size)
        if options.unit_size is not None
        else aimed_unit_bytes(listed.bytes)
    )
    unit_records = max(_UNIT_RECORDS, power_of_two(listed.items // bounds.UNITS))
    stage_options = {
        "unit_version": UNIT_VERSION,
        "record_type": options.record_type,
        "version": record_type.version,
        "seed": options.seed,
        "reading": how,
        # Fractions are for planning: other ones find the staged units as they are.
        "split": options.split if splits_are_given(options.split) else "",
        **({} if options.labels is None else _LABELLED),
        **record_type.stage_options(),
    }
    # What the whole build is made of: its options, and the same rows that its units are made of,
    # but not how they are cut.
    build = hashlib.blake2b(digest_size=16)
    config = options.config()
    build.update(json.dumps([config, options.name, stage_options]).encode())
    excluded = excluded_by(options).to_bytes()
    build.update(excluded)
    summaries = SourceSummaries(options.sources, options.id_prefix)
    with (
        item_hash_writer(workspace) as hashes,
        contextlib.closing(storage.open_random(workspace.listing)) as written,
    ):
        aim = (unit_bytes, unit_records)
        cut = _cut(workspace.listing, aim, stage_options, build, summaries, seen, hashes)
        located = _batched(listed.located(unit, written) for unit in cut)
        units = pa.Table.from_batches(map(_unit_batch, located), _UNIT_SCHEMA)
    write_table(workspace, workspace.unit_table, units)
    inputs: dict[str, Any] = {
        "config": config,
        "stage": stage_options,
        "sources": summaries.described(),
    }
    inputs |= {EXCLUDED_KEY: hashlib.sha256(excluded).hexdigest()} if excluded else {}
    keys = units["key"].to_pylist()
    changes = note_changes(workspace, options.sources, stage_options, keys, listed.items)
    workspace.mark("stage")
    return Listing(
        *(listed.items, listed.bytes, len(ignored), build.hexdigest(), inputs, changes),
        *(seen.known, seen.known_bytes, seen.known_to, listing.unselected),
    )


def read_units(workspace: Workspace) -> Iterator[Unit]:
    """All units, in the order of the listing."""
    return _units(read_table(workspace.unit_table))


def largest_first(workspace: Workspace) -> Iterator[Unit]:
    """All units in the order to hand them out, so that the small ones fill the gaps at the end."""
    table = read_table(workspace.unit_table)
    return _units(table.take(pa.array(np.argsort(-int64(table["bytes"]), kind="stable"))))


def _units(table: pa.Table) -> Iterator[Unit]:
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        for values in batch.to_pylist():
            yield Unit(**values)


def read_unit(listing: Place, unit: Unit) -> Iterator[SourceItem]:
    """The items of one unit, in listing order; of a local listing, a batch is in memory.

    Raises:
        InputError: The listing was damaged since it was written.
    """
    row = unit.start - unit.start % _BATCH_ROWS
    with _batches_of(listing, unit) as (data, end):
        while data.tell() < end:
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(data), ITEM_SCHEMA)
            first = max(0, unit.start - row)
            yield from items_in(batch.slice(first, unit.end - row - first))
            row += batch.num_rows


def _items_in(listing: Place) -> Iterator[SourceItem]:
    for batch in read_batches(listing):
        yield from items_in(batch)


def _check_listed(listing: Place, unit: Unit, crc32: int) -> None:
    if crc32 != unit.listed_crc32:
        raise InputError(
            f"The listing {listing} was damaged during the build. Run the same command again."
        )


def _crc32(file: RandomAccessFile, offset: int, size: int) -> int:
    """CRC-32 of a range of a file; of less where the file ends before."""
    crc32, end = 0, offset + size
    while offset < end and (data := file.read_at(offset, min(_CHECK_BYTES, end - offset))):
        crc32 = zlib.crc32(data, crc32)
        offset += len(data)
    return crc32


@contextlib.contextmanager
def _batches_of(listing: Place, unit: Unit) -> Iterator[tuple[pa.NativeFile, int]]:
    """A file at the first batch of a unit, and where the last one ends."""
    path = storage.local_path(listing)
    if path is None:
        data = storage.read_range(listing, unit.listed_at, unit.listed_bytes)
        _check_listed(listing, unit, zlib.crc32(data))
        yield pa.BufferReader(data), len(data)
        return
    with contextlib.closing(storage.open_random(listing)) as written:
        _check_listed(listing, unit, _crc32(written, unit.listed_at, unit.listed_bytes))
    with pa.OSFile(str(path)) as file:  # not mapped: its pages would count as memory of the job
        file.seek(unit.listed_at)
        yield file, unit.listed_at + unit.listed_bytes


class _Written(NamedTuple):
    """A listing that was written.

    Attributes:
        items: Its rows.
        usable: Those that are not rejected.
        bytes: Size of all items.
        places: Where each batch begins in the file, and where the last one ends.
    """

    items: int
    usable: int
    bytes: int
    places: list[int]

    def located(self, unit: Unit, listing: RandomAccessFile) -> Unit:
        """A unit with the place and the checksum of its batches, which a worker reads."""
        first, last = unit.start // _BATCH_ROWS, -(-unit.end // _BATCH_ROWS)
        begin, size = self.places[first], self.places[last] - self.places[first]
        crc32 = _crc32(listing, begin, size)
        return unit._replace(listed_at=begin, listed_bytes=size, listed_crc32=crc32)


class SeenItemFilter:
    """Leaves out items that other generations of the set have read.

    Args:
        options: The job; only with `base` there are any.
        reading: How items are read, see `reading_key`.

    Attributes:
        known: Number of items that were left out.
        known_bytes: Their bytes.
        known_to: The last generation that has read one of them; -1 for none.
    """

    def __init__(self, options: PreprocessOptions, reading: bytes) -> None:
        self._reading = reading
        self._items: KnownItems | None = None
        if options.base:
            base = storage.place_of(options.base)
            self._items = items_of(base, load_manifest(base, options.base_generation))
        self._others = KnownItems(map(storage.place_of, options.without_items))
        self._own = KnownItems(map(storage.place_of, filter(None, [options.only_items])))
        self.known = self.known_bytes = 0
        self.known_to = -1

    def hash(self, identity: bytes) -> int:
        """The hash of an item; see `item_identity`."""
        digest = hashlib.blake2b(identity, digest_size=8, key=self._reading).digest()
        return int.from_bytes(digest, "big")

    def filter(self, items: list[SourceItem]) -> list[SourceItem]:
        """Returns those that no generation has read."""
        if self._items is None and not self._others and not self._own:
            return items
        hashes = np.array([self.hash(item_identity(item)) for item in items], np.uint64)
        left = np.ones(len(items), bool)
        if self._others:
            originals = [self.hash(item_identity(before_replacement(item))) for item in items]
            for keys in (hashes, np.array(originals, np.uint64)):
                left &= self._others.generation_of(keys) < 0
        if self._own:
            left &= self._own.generation_of(hashes) >= 0
        items = [items[row] for row in np.flatnonzero(left).tolist()]
        if self._items is None:
            return items
        hashes = hashes[left]
        known = self._items.generation_of(hashes)
        self.known += int((known >= 0).sum())
        self.known_to = max(self.known_to, int(known.max(initial=-1)))
        self.known_bytes += sum(items[row].size for row in np.flatnonzero(known >= 0).tolist())
        return [items[row] for row in np.flatnonzero(known < 0).tolist()]


def _write_listing(
    items: Iterator[SourceItem],
    seen: SeenItemFilter,
    workspace: Workspace,
    on_progress: Callable[[int], None],
) -> _Written:
    new = (item for rows in _batched(items) for item in seen.filter(rows))
    count = usable = total_bytes = 0
    with (
        workspace.write_arrow(workspace.listing) as sink,
        pa.ipc.new_file(sink, ITEM_SCHEMA) as writer,
    ):
        places = [_MAGIC_BYTES + ITEM_SCHEMA.serialize().size]
        for rows in _batched(new):
            writer.write_batch(item_batch(rows))
            places.append(sink.tell())
            count += len(rows)
            usable += sum(not item.reason for item in rows)
            total_bytes += sum(item.size for item in rows)
            on_progress(count)
    return _Written(count, usable, total_bytes, places)


def _batched(items: Iterator[_Row]) -> Iterator[list[_Row]]:
    while rows := list(itertools.islice(items, _BATCH_ROWS)):
        yield rows


def _check_not_empty(context: JobContext, found: _Written) -> None:
    options, workspace = context.options, context.workspace
    where = some_of(options.sources)
    if not found.items:
        raise InputError(
            f"Found no files in {where}. Check the path"
            f"{', --include and --exclude' if Selection(options) else ''}; files whose name begins "
            "with a dot are not read."
        )
    if not found.usable:
        first, *others = items_in(read_table(workspace.listing).slice(0, 3))
        alike = [item.record_id for item in others if item.reason == first.reason]
        like = f", like {' and '.join(map(repr, alike))}" if alike else ""
        plural = context.record_type.extractor.plural
        raise InputError(
            f"No usable {plural} among {found.items:,} files in {where}: {first.record_id!r} is "
            f"rejected as {first.reason} ({first.detail}){like}. Use one folder per class, "
            "--labels FILE, --label-pattern REGEX or --no-labels."
            f"{_guessed_command(options, workspace)}"
        )


def _guessed_command(options: PreprocessOptions, workspace: Workspace) -> str:
    """The command for files in one folder whose names seem to begin with their class."""
    table = read_table(workspace.listing).slice(0, _GUESSED_ROWS)
    flat = pc.is_in(table["reason"], pa.array(["no-class-folder", "no-match"]))
    guess = guess_pattern(table["record_id"].filter(flat).to_pylist())
    if guess is None:
        return ""
    command = command_line(options, label_pattern=guess.pattern)
    return f" Their names have {guess}:\n  {command}"


def _unit_batch(units: Sequence[Unit]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([unit._asdict() for unit in units], _UNIT_SCHEMA)


def _cut(
    listing: Place,
    aim: tuple[int, int],
    stage_options: dict[str, Any],
    build: hashlib.blake2b,
    summaries: SourceSummaries,
    seen: SeenItemFilter,
    hashes: ItemHashWriter,
) -> Iterator[Unit]:
    """Cuts where a hash of the record id says so, not every N bytes.

    So a file that is added or removed changes the unit it falls in and no other, and a later build
    finds the other units done (content-defined chunking; Muthitacharoen, Chen, Mazieres: LBFS, SOSP
    2001, section 3.1). A record ends a unit with a chance of its size / the aim, or of one in the
    number aimed at, whatever came before: a least size would be kinder to the file system, but cuts
    would then depend on cuts.

    Args:
        listing: The corpus.
        aim: Bytes and records of a unit that are aimed at.
        stage_options: What decides what is staged.
        build: Takes the identity of every item.
        summaries: Takes every item.
        seen: Gives the hash of an item.
        hashes: Takes it.
    """
    unit_bytes, unit_records = aim
    prefix = json.dumps(stage_options, sort_keys=True).encode()
    digest, start, position, size = hashlib.blake2b(prefix, digest_size=16), 0, 0, 0
    ends, block = False, 0  # whether the unit is to end, and the block that it must not cut
    for batch in read_batches(listing):
        for item in items_in(batch):
            if ends and (not block or item.block != block):
                yield Unit(digest.hexdigest(), start, position, size)
                digest, start, size = hashlib.blake2b(prefix, digest_size=16), position, 0
                ends = False
            identity = item_identity(item)
            hashes.add(seen.hash(identity))
            digest.update(identity)
            build.update(identity)
            summaries.add(item, identity)
            position += 1
            size += item.size
            block = item.block
            full = max(size / unit_bytes, (position - start) / unit_records) >= _LONGEST_UNIT
            chance = max(item.size / unit_bytes, 1 / unit_records)
            ends |= full or id_hash(item.record_id) / 2**64 < chance
    if position > start:
        yield Unit(digest.hexdigest(), start, position, size)
