"""The files of a staged unit, and how a finished one is known.

KEY.tfrecord   frames with the features known so far, in shuffle-key order
KEY.arrow      one row per frame: key, offset, length, record id, label, statistics
KEY.rejects    Arrow: what was refused, with its bytes and the reason
KEY.json       the summary, with the checksums of the sidecar, the rejections and itself; written
               last, so that it marks the unit as done

Every file is compared with its checksum before it is used: a staging folder may be old, and on a
disk that loses bits. What is damaged is staged again. Payload has a checksum for each record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import int64
from beam_jobs.corpus.source_io import CHANGED
from beam_jobs.corpus.urls.reasons import may_come_back
from beam_jobs.workspace import Workspace, read_marker, read_table
from foundation import storage
from foundation.storage import Place
from shard_format import DamageError, InputError, file_sha256

SIDECAR_FIELDS = (
    pa.field("key", pa.uint64(), nullable=False),
    pa.field("id_hash", pa.uint64(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("length", pa.int64(), nullable=False),  # of the frame
    pa.field("record_id", pa.string(), nullable=False),
    pa.field("label", pa.string()),
    pa.field("fingerprint", pa.binary(16), nullable=False),
    pa.field("group", pa.uint64()),  # hash of what --group-by says
    pa.field("split", pa.string()),  # where the source says
)


def kept_column(name: str) -> str:
    """The column of a sidecar with a kept column, which may have the name of any of the others."""
    return f"kept.{name}"


_UNIT_ROWS = 2048  # units, as Python objects
_MIN_UNIT_BYTES = 2 << 20  # 2 MiB: under this, opening files costs more than reading them
_MAX_UNIT_BYTES = 32 << 20  # 32 MiB: about what a worker has to redo after a crash
_MAX_UNIT_ITEMS = 512  # of one record each they take about as long as opening the files of a unit
_UNITS_PER_CORPUS = 64  # aimed at for small corpora, so that every worker has some


def aimed_unit_bytes(corpus_bytes: int) -> int:
    """Bytes of a unit to aim at.

    It is a power of two, so that a growing corpus rarely changes it and staged units stay useful.
    """
    most = max(_MAX_UNIT_BYTES, power_of_two(corpus_bytes // bounds.UNITS))
    return min(most, max(_MIN_UNIT_BYTES, power_of_two(corpus_bytes // _UNITS_PER_CORPUS)))


def aimed_unit_items(items: int) -> int:
    """Items of a unit to aim at, where one item may have any number of records."""
    most = max(_MAX_UNIT_ITEMS, power_of_two(items // bounds.UNITS))
    return min(most, power_of_two(items // _UNITS_PER_CORPUS))


def power_of_two(least: int) -> int:
    """The smallest power of two that is not less."""
    return 1 << max(0, least - 1).bit_length()


def with_offsets(rows: pa.Table, begin: int = 0) -> pa.Table:
    """Rows whose frames are written one behind the other, with the "offset" of each.

    Args:
        rows: With "length", in bytes, and "offset", which is replaced.
        begin: Where the first frame begins.
    """
    lengths = int64(rows["length"])
    at = rows.column_names.index("offset")
    offsets = pa.array(begin + np.cumsum(lengths) - lengths)
    return rows.set_column(at, rows.schema.field("offset"), offsets)


# The reason of a file that an I/O error kept from being read.
UNREADABLE = "unreadable"
# Reasons of files that may be readable as they were listed the next time.
NOT_READ = frozenset({UNREADABLE, CHANGED})


class Unit(NamedTuple):
    """A slice of the listing.

    Attributes:
        key: Content address: files, options and code version decide it.
        start: First row in the listing of its piece.
        end: One behind the last row.
        bytes: Size of its records, as listed.
        listed_at: First byte, in the listing, of the batches that have its rows.
        listed_bytes: Size of these batches.
        listed_crc32: CRC-32 of these bytes.
        piece: Number of the piece of the corpus in whose listing it is.
    """

    key: str
    start: int
    end: int
    bytes: int
    listed_at: int = 0
    listed_bytes: int = 0
    listed_crc32: int = 0
    piece: int = 0


UNIT_SCHEMA = pa.schema(
    [pa.field("key", pa.string())]
    + [pa.field(name, pa.int64()) for name in Unit._fields if name != "key"]
)


def listed_pieces(workspace: Workspace) -> list[int]:
    """The pieces of a listed corpus that have units, in order; the first one if there is none."""
    return pc.unique(read_table(workspace.unit_table)["piece"]).to_pylist() or [0]


def read_units(workspace: Workspace) -> Iterator[Unit]:
    """All units, in the order of the listing."""
    return _units(read_table(workspace.unit_table))


def largest_first(workspace: Workspace) -> Iterator[Unit]:
    """All units in the order to hand them out, so that the small ones fill the gaps at the end."""
    table = read_table(workspace.unit_table)
    return _units(table.take(pa.array(np.argsort(-int64(table["bytes"]), kind="stable"))))


def _units(table: pa.Table) -> Iterator[Unit]:
    for batch in table.to_batches(max_chunksize=_UNIT_ROWS):
        for values in batch.to_pylist():
            yield Unit(**values)


class UnitSummary(NamedTuple):
    """All that leaves a worker about a unit.

    Attributes:
        key: The unit.
        read: Records it had.
        kept: Records it staged.
        refused: How many could not be used, by reason.
        filtered: How many a cleaning rule left out, by reason.
        reused: True when it was found done.
        ignored: Parts of its files that are not records, such as the requests of a WARC file.
        unreadable: Files that could not be read because of I/O errors. Nothing of the unit is
            staged then.
        error: The first of these errors.
        sha256: Checksums of its sidecar and its rejections, by their suffix.
        noted: Numbers of staged records by what they have, for notes; "empty NAME" of those that
            have no value in a kept column.
    """

    key: str
    read: int
    kept: int
    refused: dict[str, int]
    filtered: dict[str, int]
    reused: bool
    ignored: int = 0
    unreadable: int = 0
    error: str = ""
    sha256: Mapping[str, str] = {}
    noted: Mapping[str, int] = {}


def unit_files(workspace: Workspace, key: str) -> dict[str, Place]:
    """The four files of a unit, by their suffix."""
    return {
        suffix: workspace.units / f"{key}.{suffix}"
        for suffix in ("tfrecord", "arrow", "rejects", "json")
    }


def done_before(key: str, workspace: Workspace, replays: int = 0) -> UnitSummary | None:
    """The summary of a unit whose files are as they were written.

    Of the payload only the size is checked here: each of its records has a checksum of its own.

    Args:
        key: The unit.
        workspace: Where its files are.
        replays: How often servers are asked again, of a list of URLs. A unit that was asked less
            often is not done if some of them may answer now.
    """
    files = unit_files(workspace, key)
    marker = read_marker(files["json"])
    if marker is None:
        return None
    try:
        payload = storage.stat(files["tfrecord"])
        if payload is None or payload.size != marker["payload_bytes"]:
            return None
        summary = UnitSummary(**{**marker["summary"], "reused": True})
        if any(file_sha256(files[suffix]) != sha for suffix, sha in summary.sha256.items()):
            return None
    except (OSError, KeyError, TypeError, AttributeError):
        return None  # a file is missing, or the marker is of another version
    asks_again = marker.get("replays", 0) < replays and any(map(may_come_back, summary.refused))
    return None if asks_again or NOT_READ & summary.refused.keys() else summary


def read_sidecar(workspace: Workspace, key: str, sha256: str) -> pa.Table:
    """The sidecar of a unit, whose bytes are compared with its checksum at the first time.

    Raises:
        InputError: It is damaged, and dropped.
        FileNotFoundError: There is none.
    """
    with dropping_damaged(lambda: forget_unit(workspace, key)):
        return workspace.read_checked(unit_files(workspace, key)["arrow"], sha256)


@contextlib.contextmanager
def dropping_damaged(forget: Callable[[], None]) -> Iterator[None]:
    """Has a staged file made again by the next build if it is found damaged.

    Args:
        forget: Does that.

    Raises:
        InputError: It is damaged.
    """
    try:
        yield
    except DamageError as error:
        forget()
        raise InputError(
            f"A staged file is damaged: {error}. It was dropped; run the same command again, which "
            "makes it again."
        ) from error


def forget_unit(workspace: Workspace, key: str) -> None:
    """Has a unit staged again by the next build."""
    storage.delete(unit_files(workspace, key)["json"])
