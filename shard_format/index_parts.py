"""The index of a split, in one file or in parts; nobody else knows its files.

An index of a million rows is one file, which a process writes and opens. That of a larger split is
in parts, each the rows of some whole shards, which many workers write and of which a reader opens
those that it needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from foundation.errors import DamageError
from foundation.storage import Place
from shard_format import naming
from shard_format.index import IndexWriter, index_schema, open_index
from shard_format.manifest import IndexPart, Manifest

# Rows of a part: some 128 MiB of texts, 256 MiB of images.
PART_ROWS = 1 << 20


def plan_parts(records: Iterable[int]) -> list[range]:
    """The shards of each part of an index: as many as have `PART_ROWS` records, at least one.

    Args:
        records: Records of every shard. Without a shard there is one part, which is empty.
    """
    parts, first, rows, shard = [], 0, 0, -1
    for shard, count in enumerate(records):
        if rows and rows + count > PART_ROWS:
            parts.append(range(first, shard))
            first, rows = shard, 0
        rows += count
    return [*parts, range(first, shard + 1)]


def open_split_index(root: Place, manifest: Manifest, split: str) -> pa.Table:
    """The index of a split as a table; see `open_index`. Parts are not copied.

    Args:
        root: The set.
        manifest: Manifest of the set.
        split: Name of the split.

    Raises:
        ShardSetError: A file is missing.
        DamageError: A file is not an Arrow file, or lacks a column.
    """
    return pa.concat_tables(index_tables(root, manifest, split))


def index_tables(
    root: Place, manifest: Manifest, split: str, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yields the index of a split part by part, at least one; see `open_index`.

    Args:
        root: The set.
        manifest: Manifest of the set.
        split: Name of the split.
        columns: The columns to open; None for all.

    Raises:
        ShardSetError: A file is missing.
        DamageError: A file is not an Arrow file, or lacks a column.
    """
    parts = manifest.index_parts(split)
    schema: pa.Schema | None = None
    for part in parts:
        table = open_index(root / part.file, columns)
        schema = schema or table.schema
        if table.schema != schema:
            raise DamageError(
                f"The index {root / part.file} has other columns than {root / parts[0].file}. Run "
                "'shardmill verify'."
            )
        yield table


def open_shard_rows(root: Place, manifest: Manifest, split: str, shard: int) -> pa.Table:
    """The rows of one shard of a split, in order; only their part of the index is opened."""
    index = open_index(root / manifest.index_part_of(split, shard))
    return index.filter(pc.equal(index["shard"], shard))


def write_index(
    folder: Place,
    split: str,
    records: Sequence[int],
    tables: Iterable[pa.Table],
    schema: pa.Schema,
    *,
    before: int | None = None,
    scratch: Path | None = None,
) -> tuple[IndexPart, ...]:
    """Writes the index of some shards of a split, durably, one table at a time.

    The list of shards, which an index in parts needs, is not written.

    Args:
        folder: The folder that the files are named relative to.
        split: Name of the split.
        records: Number of records of each of the shards.
        tables: The rows of each.
        schema: That of an index with these columns.
        before: Number of parts that the index has already; None where the shards are all there are,
            whose index is one file if it is small.
        scratch: See `storage.create`.
    """
    common = set(index_schema([]).names)
    statistics = [field for field in schema if field.name not in common]
    planned, rows, parts = plan_parts(records), iter(tables), []
    for number, own in enumerate(planned, before or 0):
        is_whole = before is None and len(planned) == 1
        file = naming.index_file(split) if is_whole else naming.index_part_file(split, number)
        with IndexWriter(folder / file, statistics, durable=True, scratch=scratch) as writer:
            for table in itertools.islice(rows, len(own)):
                writer.append(table)
        parts.append(IndexPart(file, len(own)))
    return tuple(parts)
