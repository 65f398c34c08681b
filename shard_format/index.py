"""The index of a split: an Arrow file with one row per record, in reading order.

TFRecord has no index of its own. This one makes random access, exact resume and damage containment
possible. Record types add their own statistics columns after the common ones.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foundation import storage
from foundation.errors import DamageError, ShardSetError
from foundation.storage import Place

# Plain strings can be sliced out of a memory map, unlike the smaller dictionaries.
COMMON_FIELDS = (
    pa.field("shard", pa.int32(), nullable=False),  # index into the split's shards
    pa.field("offset", pa.int64(), nullable=False),  # first byte of the frame in the shard
    pa.field("length", pa.int64(), nullable=False),  # bytes of the whole frame
    pa.field("key", pa.uint64(), nullable=False),  # shuffle key; ascending over the split
    pa.field("record_id", pa.string(), nullable=False),
    pa.field("label", pa.int64()),  # null if the record has none
    pa.field("fingerprint", pa.binary(16), nullable=False),  # equal for exact duplicates
)

_BATCH_ROWS = 1 << 20  # of a memory-mapped column

LABELS_FIELD = pa.field("labels", pa.list_(pa.int64()))
"""Column of the index of a set whose records have any number of labels; "label" is null there."""


def label_column(feature: str) -> str:
    """The column of the index with the value of a class_label: "label", or "label.NAME"."""
    return feature if feature == "label" else f"label.{feature}"


def index_schema(statistics: Sequence[pa.Field]) -> pa.Schema:
    """The Arrow schema of an index with these statistics columns."""
    return pa.schema([*COMMON_FIELDS, *statistics])


class IndexWriter:
    """Writes an index, one table per shard, with one of them in memory at a time.

    Args:
        place: The file, which gets its name, whole, when the writer is closed.
        statistics: Columns of the record type.
        durable: See `storage.create`.
        scratch: See `storage.create`.
    """

    def __init__(
        self,
        place: Place,
        statistics: Sequence[pa.Field],
        *,
        durable: bool = False,
        scratch: Path | None = None,
    ) -> None:
        self._schema = index_schema(statistics)
        with ExitStack() as stack:
            created = storage.create_arrow(place, durable=durable, scratch=scratch)
            sink = stack.enter_context(created)
            self._writer = stack.enter_context(pa.ipc.new_file(sink, self._schema))
            self._files = stack.pop_all()

    def append(self, table: pa.Table) -> None:
        """Adds the rows of one shard as one record batch.

        The bytes depend on the values alone. Of a small slice Arrow would write neighbours too: it
        cuts buffers at multiples of 64 bytes. So the rows are copied.
        """
        table = table.select(self._schema.names).cast(self._schema)
        for batch in table.take(pa.array(np.arange(len(table)))).combine_chunks().to_batches():
            self._writer.write_batch(batch)

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._files.__exit__(kind, error, traceback)


def open_index(place: Place, columns: Sequence[str] | None = None) -> pa.Table:
    """The index as a table; of a local file, memory-mapped: a column is read when it is used.

    Args:
        place: The file.
        columns: The columns to open; None for all.

    Raises:
        ShardSetError: The file is missing.
        DamageError: The file is not an Arrow file, or lacks a column.
    """
    with _reading(place):
        source = storage.open_arrow(place)
        file = pa.ipc.open_file(source)
        schema = file.schema
        included = sorted(schema.get_field_index(name) for name in columns or schema.names)
        if included[:1] == [-1]:
            raise pa.ArrowInvalid(f"it lacks one of the columns {', '.join(columns or ())}")
        if columns is not None and storage.local_path(place) is None:
            # Of a mapped file, Arrow would copy what it reads so.
            options = pa.ipc.IpcReadOptions(included_fields=included)
            file = pa.ipc.open_file(source, options=options)
        table = file.read_all()
    _check_columns(place, schema)
    return table.select([schema.names[at] for at in included])


def read_schema(place: Place) -> pa.Schema:
    """The columns of an index; raises as `open_index`."""
    with _reading(place), storage.open_arrow(place) as source:
        schema = pa.ipc.open_file(source).schema
    _check_columns(place, schema)
    return schema


@contextlib.contextmanager
def _reading(place: Place) -> Iterator[None]:
    """Says of a file that cannot be read what it is."""
    try:
        yield
    except FileNotFoundError as error:
        raise ShardSetError(
            f"The index {place} is missing. Copy the whole set, or build it again."
        ) from error
    except (pa.ArrowInvalid, OSError) as error:
        raise DamageError(
            f"The index {place} is not a whole Arrow file: {error}. Run 'shardmill verify'."
        ) from error


def _check_columns(place: Place, schema: pa.Schema) -> None:
    missing = [field.name for field in COMMON_FIELDS if field.name not in schema.names]
    if missing:
        raise DamageError(
            f"The index {place} has no column {', '.join(missing)}, only "
            f"{', '.join(schema.names)}. Build the set again."
        )


def count_values(index: pa.Table, column: str) -> dict[str | None, int]:
    """Number of records by the value of a text column, the most frequent first.

    Nulls count as None. The distinct values and a part of the column are in memory.

    Args:
        index: From `open_index`.
        column: Its name; without such a column the result is empty.
    """
    if column not in index.column_names or not _is_text(index.schema.field(column).type):
        return {}
    counts: Counter[str | None] = Counter()
    for batch in index.select([column]).to_batches(max_chunksize=_BATCH_ROWS):
        for item in pc.value_counts(batch[column]).to_pylist():
            counts[item["values"]] += item["counts"]
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0] or "")))


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
