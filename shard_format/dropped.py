"""What a set keeps of records that it could not use: the quarantine; its Parquet files, in pieces.

They may be large: they are read some rows at a time, and originals only on request. `duplicates`
has what a set keeps of duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foundation import storage
from foundation.errors import DamageError
from foundation.storage import Place
from shard_format import naming
from shard_format.manifest import Manifest

# The columns of the quarantine; `RejectedRecord` is a row of it.
QUARANTINE_SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("bytes", pa.large_binary()),  # the original; null where it was not read
    ]
)

_BATCH_ROWS = 65_536  # of short columns: a few MiB
_TEXTS = tuple(name for name in QUARANTINE_SCHEMA.names if name != "bytes")


class RejectedRecord(NamedTuple):
    """A record of the quarantine, without its original.

    Attributes:
        record_id: Its id.
        label: Its class, or None.
        stage: Where it was rejected: "list", "read", "prepare", or "filter" for rules that the
            user chose.
        reason: Such as "truncated".
        detail: What was found in it.
        bytes: Size of its original; None where it was not read: it could not be, or it is of a file
            that no row of --labels names.
    """

    record_id: str
    label: str | None
    stage: str
    reason: str
    detail: str
    bytes: int | None


class Refused(NamedTuple):
    """The first record of the quarantine that has this reason, and how many have it.

    Attributes:
        reason: Such as "truncated".
        records: Number of records in the whole quarantine.
        record_id: Id of the first one, in listing order.
        label: Its class, or None.
        stage: See `RejectedRecord`.
        detail: What was found in it.
        file: The part of the quarantine that has it, relative to the set.
        row: Its row in that part.
    """

    reason: str
    records: int
    record_id: str
    label: str | None
    stage: str
    detail: str
    file: str
    row: int


def read_refused(directory: Place, manifest: Manifest) -> list[Refused]:
    """One example for every reason in the quarantine, the most frequent reason first.

    Raises:
        DamageError: A part of the quarantine is missing or is no Parquet file.
    """
    counts: dict[str, int] = {}
    first: dict[str, tuple[str, int]] = {}
    for file in quarantine_files(manifest):
        start = 0
        for batch in read_columns(directory, file, ["reason"]):
            for item in pc.value_counts(batch["reason"]).to_pylist():
                reason, count = item["values"], item["counts"]
                if reason not in first:
                    first[reason] = (file, start + pc.index(batch["reason"], reason).as_py())
                counts[reason] = counts.get(reason, 0) + count
            start += len(batch)
    reasons = [
        Refused(records=counts[reason], file=file, row=row, **_row(directory, file, row))
        for reason, (file, row) in first.items()
    ]
    return sorted(reasons, key=lambda refused: (-refused.records, refused.reason))


def refused_at(directory: Place, file: str, row: int) -> Refused:
    """The record in a row of a part of the quarantine, which counts as one.

    Raises:
        DamageError: The part is missing, is no Parquet file, or has no such row.
    """
    return Refused(records=1, file=file, row=row, **_row(directory, file, row))


def read_rejected(
    directory: Place, manifest: Manifest
) -> Iterator[tuple[RejectedRecord, pa.LargeBinaryScalar]]:
    """Every record of the quarantine with its original, in listing order.

    One row group of a few MiB is in memory, or one original if that is larger.

    Raises:
        DamageError: A part of the quarantine is missing or is not a Parquet file.
    """
    for file in quarantine_files(manifest):
        opened = _open(directory, file)
        _check_columns(directory, file, opened, QUARANTINE_SCHEMA.names)
        for group in range(opened.num_row_groups):
            try:
                table = opened.read_row_group(group, QUARANTINE_SCHEMA.names)
            except (pa.ArrowException, OSError) as error:
                raise _damaged(directory, file, error) from error
            originals = table["bytes"]
            sizes = pc.binary_length(originals).to_pylist()
            rows = table.select(_TEXTS).to_pylist()
            for row, size, original in zip(rows, sizes, originals, strict=True):
                yield RejectedRecord(**row, bytes=size), original


def quarantine_batches(
    directory: Place, manifest: Manifest, columns: Sequence[str] = QUARANTINE_SCHEMA.names
) -> Iterator[pa.RecordBatch]:
    """The rows of the quarantine of all generations; a row group of a few MiB is in memory."""
    for file in quarantine_files(manifest):
        opened = _open(directory, file)
        for group in range(opened.num_row_groups):
            yield from opened.read_row_group(group, list(columns)).to_batches()


def quarantine_files(manifest: Manifest) -> list[str]:
    """The parts of the quarantine, generation by generation."""
    return generation_by_generation(naming.parse_quarantine, manifest)


def generation_by_generation(
    parse: Callable[[str], re.Match[str] | None], manifest: Manifest
) -> list[str]:
    """The files of some kind, whose names `parse` matches, in order."""
    matches = [match for match in map(parse, manifest.files) if match is not None]
    return [match[0] for match in sorted(matches, key=lambda match: (match["folder"], match[0]))]


def refused_bytes(directory: Place, refused: Refused, limit: int) -> bytes | None:
    """The original of a refused record; None if it was not kept, or may exceed `limit` bytes."""
    group, row = _locate(directory, refused.file, refused.row)
    file = _open(directory, refused.file)
    metadata = file.metadata.row_group(group)
    sizes = {
        metadata.column(number).path_in_schema: metadata.column(number).total_uncompressed_size
        for number in range(metadata.num_columns)
    }
    # A group is read as a whole: a few MiB, unless a single original is larger than that.
    if sizes.get("bytes", limit + 1) > limit:
        return None
    try:
        value: bytes | None = file.read_row_group(group, ["bytes"])["bytes"][row].as_py()
    except (pa.ArrowException, OSError) as error:
        raise _damaged(directory, refused.file, error) from error
    return value


def read_columns(
    directory: Place, file: str, columns: Sequence[str], batch_rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Some columns of a Parquet file of the set, piece by piece.

    Raises:
        DamageError: It is missing, is no Parquet file, or lacks a column.
    """
    opened = _open(directory, file)
    _check_columns(directory, file, opened, columns)
    try:
        yield from opened.iter_batches(batch_rows or _BATCH_ROWS, columns=list(columns))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(directory, file, error) from error


def _check_columns(
    directory: Place, file: str, opened: pq.ParquetFile, columns: Sequence[str]
) -> None:
    missing = [name for name in columns if name not in opened.schema_arrow.names]
    if missing:
        raise DamageError(
            f"{directory / file} has no column {', '.join(missing)}. Run 'shardmill verify "
            f"{directory}'."
        )


def _open(directory: Place, file: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(storage.open_arrow(directory / file, mapped=False))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(directory, file, error) from error


def _damaged(directory: Place, file: str, error: Exception) -> DamageError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DamageError(
        f"{directory / file} is damaged or missing: {reason}. Run 'shardmill verify {directory}'."
    )


def _locate(directory: Place, file: str, row: int) -> tuple[int, int]:
    """(row group, row in it) of a row of a file."""
    metadata = _open(directory, file).metadata
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if row < rows:
            return group, row
        row -= rows
    raise _damaged(directory, file, IndexError(f"no row {row}"))


def _row(directory: Place, file: str, row: int) -> dict[str, Any]:
    group, row = _locate(directory, file, row)
    try:
        table = _open(directory, file).read_row_group(group, list(_TEXTS))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(directory, file, error) from error
    values: dict[str, Any] = table.slice(row, 1).to_pylist()[0]
    return values
