"""The index of a split: one row per record, in reading order, as a memory-mapped Arrow file.

It is what makes random access, exact resume and damage containment possible on TFRecord, which
has no index of its own. Record types add their own statistics columns behind the common ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from shard_format.errors import DamageError, ShardSetError

# A dictionary would be smaller, but plain strings can be sliced out of a memory map.
COMMON_FIELDS = (
    pa.field("shard", pa.int32(), nullable=False),  # index into the split's shards
    pa.field("offset", pa.int64(), nullable=False),  # first byte of the frame in the shard
    pa.field("length", pa.int64(), nullable=False),  # bytes of the whole frame
    pa.field("key", pa.uint64(), nullable=False),  # shuffle key; ascending over the split
    pa.field("record_id", pa.string(), nullable=False),
    pa.field("label", pa.int64()),  # null where a record has none
    pa.field("fingerprint", pa.binary(16), nullable=False),  # equal for exact duplicates
)

# Of a set whose records have any number of labels; "label" is then null.
LABELS_FIELD = pa.field("labels", pa.list_(pa.int64()))


def index_schema(statistics: Sequence[pa.Field]) -> pa.Schema:
    """The Arrow schema of an index with these statistics columns."""
    return pa.schema([*COMMON_FIELDS, *statistics])


class IndexWriter:
    """Writes an index, one table per shard, without ever holding more than one of them.

    Args:
        path: Where to write; the file is complete when the writer is closed.
        statistics: The columns that the record type adds.
    """

    def __init__(self, path: Path, statistics: Sequence[pa.Field]) -> None:
        self._schema = index_schema(statistics)
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)

    def append(self, table: pa.Table) -> None:
        """Adds the rows of one shard as one record batch."""
        table = table.select(self._schema.names).cast(self._schema).combine_chunks()
        for batch in table.to_batches():
            self._writer.write_batch(batch)

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.close()
        self._sink.close()


def open_index(path: Path) -> pa.Table:
    """The index as a table whose columns lie in a memory map: nothing is read until it is used.

    Raises:
        ShardSetError: The file is missing.
        DamageError: The file is no Arrow file, or lacks a column.
    """
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except FileNotFoundError as error:
        raise ShardSetError(
            f"every split has an index, got no file {path}. Copy the whole set, or build it again."
        ) from error
    except (pa.ArrowInvalid, OSError) as error:
        raise DamageError(
            f"an index must be an Arrow file, got {error} in {path}. Run 'shardmill verify'."
        ) from error
    missing = [field.name for field in COMMON_FIELDS if field.name not in table.column_names]
    if missing:
        raise DamageError(
            f"an index must have the columns {', '.join(missing)}, got "
            f"{', '.join(table.column_names)} in {path}. Build the set again."
        )
    return table
