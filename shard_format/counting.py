"""How often each value of an index column occurs."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

_BATCH_ROWS = 1 << 20  # of a memory-mapped column


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
