"""The listing of a piece of the corpus: how it is written, and cut into units."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.changes import SourceSummaries
from beam_jobs.corpus.item_table import ITEM_SCHEMA, endings, item_batch, items_in
from beam_jobs.corpus.listing import CorpusListing
from beam_jobs.corpus.pieces import CorpusPiece
from beam_jobs.job_context import JobContext
from beam_jobs.staging.item_list import ItemHashWriter, item_hash_writer
from beam_jobs.staging.listed_items import LISTED_ROWS, range_crc32
from beam_jobs.staging.seen_items import SeenItemFilter, item_hash, item_identity, reading_key
from beam_jobs.staging.units import UNIT_SCHEMA, Unit
from beam_jobs.workspace import read_batches
from foundation import storage
from foundation.storage import Place, RandomAccessFile
from shard_format import id_hash

_MAGIC_BYTES = 8  # before the schema, in Arrow's IPC file format
_LONGEST_UNIT = 3  # times the aims: a unit ends there though no record's hash says so
_MOST_ENDINGS = 100  # that are counted each by itself
_OTHERS = ".*"

_Row = TypeVar("_Row")


class WrittenListing(NamedTuple):
    """A listing that was written.

    Attributes:
        items: Its rows.
        usable: Those that are not rejected.
        bytes: Size of all items.
        ignored: Number of files that were left out on purpose.
        unselected: Number of files that --include and --exclude left out.
        places: Where each batch begins in the file, and where the last one ends.
    """

    items: int
    usable: int
    bytes: int
    ignored: int
    unselected: int
    places: Sequence[int]

    def located(self, unit: Unit, listing: RandomAccessFile) -> Unit:
        """A unit with the place and the checksum of its batches, which a worker reads."""
        first, last = unit.start // LISTED_ROWS, -(-unit.end // LISTED_ROWS)
        begin, size = self.places[first], self.places[last] - self.places[first]
        crc32 = range_crc32(listing, begin, size)
        return unit._replace(listed_at=begin, listed_bytes=size, listed_crc32=crc32)


class Cutting(NamedTuple):
    """What decides how a corpus is cut into units.

    Attributes:
        unit_bytes: Bytes of a unit that are aimed at.
        unit_records: Records that are aimed at.
        stage_options: What decides what is staged, besides the files.
        roots: The sources, see `SourceSummaries`.
        item_parts: Number of parts of the list of items.
    """

    unit_bytes: int
    unit_records: int
    stage_options: dict[str, Any]
    roots: Sequence[tuple[str, str]]
    item_parts: int


class CutListing(NamedTuple):
    """A listing that was cut into units.

    Attributes:
        units: A row of UNIT_SCHEMA for each, in the order of the listing.
        sources: See `SourceSummaries.described`.
        sums: See `ItemHashWriter`.
        endings: Number of usable items by the ending of their names, see `join_endings`; none where
            names decide what is read.
    """

    units: pa.Table
    sources: list[dict[str, Any]]
    sums: list[int]
    endings: dict[str, int]


def write_listing(
    context: JobContext,
    number: int,
    piece: CorpusPiece,
    seen: SeenItemFilter,
    most: int | None,
    on_progress: Callable[[int], None],
) -> tuple[WrittenListing, Iterator[tuple[CorpusPiece, int]]]:
    """Lists a piece of the corpus, or its beginning.

    Args:
        context: The job.
        number: Number of the piece.
        piece: Where its files are.
        seen: Leaves out items that other generations have read.
        most: Weight of what is listed; None for all. See `CorpusListing.piece_items`.
        on_progress: Called with the number of items so far.

    Returns:
        The listing, and the pieces that are left, each with its weight.

    Raises:
        InputError: A source cannot be listed.
    """
    options, workspace = context.options, context.workspace
    ignored = usable = total_bytes = count = 0

    def ignore(_: str) -> None:
        nonlocal ignored
        ignored += 1

    listing = CorpusListing(options, context.record_type.extractor, ignore)
    items = listing.piece_items(piece, [storage.place_of(path) for path in options.sources], most)
    new = (item for rows in batched(items) for item in seen.filter(rows))
    with (
        workspace.write_arrow(workspace.listing_of(number)) as sink,
        pa.ipc.new_file(sink, ITEM_SCHEMA) as writer,
    ):
        places = [_MAGIC_BYTES + ITEM_SCHEMA.serialize().size]
        for rows in batched(new):
            writer.write_batch(item_batch(rows))
            places.append(sink.tell())
            count += len(rows)
            usable += sum(not item.reason for item in rows)
            total_bytes += sum(item.size for item in rows)
            on_progress(count)
    written = WrittenListing(count, usable, total_bytes, ignored, listing.unselected, places)
    return written, iter(()) if most is None else listing.rest(most)


def cut_listing(
    context: JobContext,
    number: int,
    listing: Place,
    written: WrittenListing,
    cutting: Cutting,
    on_identity: Callable[[bytes], None] = lambda identity: None,
) -> CutListing:
    """Cuts a listing into units, and keeps the hashes of its items.

    Args:
        context: The job.
        number: Number of the piece.
        listing: Where its listing is.
        written: What is known of it.
        cutting: What decides where it is cut.
        on_identity: Called with the identity of every item.
    """
    reading = reading_key(context.options.reading())
    summaries = SourceSummaries(cutting.roots, context.options.id_prefix)
    with (
        item_hash_writer(context.workspace, number) as hashes,
        contextlib.closing(storage.open_random(listing)) as file,
    ):
        cut = _cut(listing, cutting, on_identity, summaries, reading, hashes)
        located = batched(written.located(unit, file)._replace(piece=number) for unit in cut)
        units = pa.Table.from_batches(map(_unit_batch, located), UNIT_SCHEMA)
    takes_any = context.record_type.extractor.format_of(b"text", "")
    counts = join_endings(_endings_in(listing)) if takes_any else {}
    return CutListing(units, summaries.described(), hashes.sums.tolist(), counts)


def _endings_in(listing: Place) -> Iterator[dict[str, int]]:
    for batch in read_batches(listing):
        usable = batch.filter(pc.equal(batch["reason"], ""))["record_id"]
        counts = pc.value_counts(endings(usable)).to_pylist()
        yield {one["values"]: one["counts"] for one in counts}


def join_endings(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of some counts by ending; the rarest of very many endings count together."""
    total = Counter[str]()
    for own in counts:
        total.update(own)
        if len(total) > 2 * _MOST_ENDINGS:
            total = _fewer(total)
    return dict(_fewer(total))


def _fewer(counts: Counter[str]) -> Counter[str]:
    fewer = Counter(dict(counts.most_common(_MOST_ENDINGS)))
    others = counts.total() - fewer.total()
    if others:
        fewer[_OTHERS] += others
    return fewer


def _unit_batch(units: Sequence[Unit]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([unit._asdict() for unit in units], UNIT_SCHEMA)


def _cut(
    listing: Place,
    cutting: Cutting,
    on_identity: Callable[[bytes], None],
    summaries: SourceSummaries,
    reading: bytes,
    hashes: ItemHashWriter,
) -> Iterator[Unit]:
    """Cuts where a hash of the record id says so, not every N bytes.

    So a file that is added or removed changes the unit it falls in and no other, and a later build
    finds the other units done (content-defined chunking; Muthitacharoen, Chen, Mazieres: LBFS, SOSP
    2001, section 3.1). A record ends a unit with a chance of its size / the aim, or of one in the
    number aimed at, whatever came before: a least size would be kinder to the file system, but cuts
    would then depend on cuts.

    Args:
        listing: Its items.
        cutting: What decides where.
        on_identity: Called with the identity of every item.
        summaries: Takes every item.
        reading: See `reading_key`.
        hashes: Takes the hash of every item.
    """
    unit_bytes, unit_records = cutting.unit_bytes, cutting.unit_records
    prefix = json.dumps(cutting.stage_options, sort_keys=True).encode()
    digest, start, position, size = hashlib.blake2b(prefix, digest_size=16), 0, 0, 0
    ends, block = False, 0  # whether the unit is to end, and the block that it must not cut
    for batch in read_batches(listing):
        for item in items_in(batch):
            if ends and (not block or item.block != block):
                yield Unit(digest.hexdigest(), start, position, size)
                digest, start, size = hashlib.blake2b(prefix, digest_size=16), position, 0
                ends = False
            identity = item_identity(item)
            hashes.add(item_hash(identity, reading))
            digest.update(identity)
            on_identity(identity)
            summaries.add(item, identity)
            position += 1
            size += item.size
            block = item.block
            full = max(size / unit_bytes, (position - start) / unit_records) >= _LONGEST_UNIT
            chance = max(item.size / unit_bytes, 1 / unit_records)
            ends |= full or id_hash(item.record_id) / 2**64 < chance
    if position > start:
        yield Unit(digest.hexdigest(), start, position, size)


def batched(items: Iterator[_Row]) -> Iterator[list[_Row]]:
    """Rows by the batch of a listing."""
    while rows := list(itertools.islice(items, LISTED_ROWS)):
        yield rows
