"""The items of a listed corpus: how workers read them from its listing, unit by unit.

A unit is a range of the rows of a listing. It is found by the bytes of its batches in the file, and
has a checksum of them: what Arrow makes of damaged bytes may end the process.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator

import pyarrow as pa

from beam_jobs.corpus.item_table import ITEM_SCHEMA, items_in
from beam_jobs.corpus.record import SourceItem
from beam_jobs.staging.units import Unit, read_units
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place, RandomAccessFile
from shard_format import InputError

LISTED_ROWS = 256  # rows per Arrow record batch: a kilobyte each, with annotations up to megabytes
_CHECK_BYTES = 1 << 20  # 1 MiB of the listing in memory at a time


def listed_batches(workspace: Workspace) -> Iterator[pa.RecordBatch]:
    """The items of a listed corpus, as rows of ITEM_SCHEMA in order; a batch is in memory.

    Raises:
        InputError: The listing was damaged since it was written.
    """
    for unit in read_units(workspace):
        yield from _batches(workspace.listing_of(unit.piece), unit)


def read_unit(listing: Place, unit: Unit) -> Iterator[SourceItem]:
    """The items of one unit, in listing order; of a local listing, a batch is in memory.

    Raises:
        InputError: The listing was damaged since it was written.
    """
    for batch in _batches(listing, unit):
        yield from items_in(batch)


def range_crc32(file: RandomAccessFile, offset: int, size: int) -> int:
    """CRC-32 of a range of a file; of less where the file ends before."""
    crc32, end = 0, offset + size
    while offset < end and (data := file.read_at(offset, min(_CHECK_BYTES, end - offset))):
        crc32 = zlib.crc32(data, crc32)
        offset += len(data)
    return crc32


def _batches(listing: Place, unit: Unit) -> Iterator[pa.RecordBatch]:
    """The rows of a unit; its first and its last batch have rows of others, too."""
    row = unit.start - unit.start % LISTED_ROWS
    with _file_of(listing, unit) as (data, end):
        while data.tell() < end:
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(data), ITEM_SCHEMA)
            first = max(0, unit.start - row)
            yield batch.slice(first, unit.end - row - first)
            row += batch.num_rows


@contextlib.contextmanager
def _file_of(listing: Place, unit: Unit) -> Iterator[tuple[pa.NativeFile, int]]:
    """A file at the first batch of a unit, and where the last one ends."""
    path = storage.local_path(listing)
    if path is None:
        data = storage.read_range(listing, unit.listed_at, unit.listed_bytes)
        _check(listing, unit, zlib.crc32(data))
        yield pa.BufferReader(data), len(data)
        return
    with contextlib.closing(storage.open_random(listing)) as written:
        _check(listing, unit, range_crc32(written, unit.listed_at, unit.listed_bytes))
    with pa.OSFile(str(path)) as file:  # not mapped: its pages would count as memory of the job
        file.seek(unit.listed_at)
        yield file, unit.listed_at + unit.listed_bytes


def _check(listing: Place, unit: Unit, crc32: int) -> None:
    if crc32 != unit.listed_crc32:
        raise InputError(
            f"The listing {listing} was damaged during the build. Run the same command again."
        )
