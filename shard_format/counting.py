"""How often each value of a column of an index occurs."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

_BATCH_ROWS = 1 << 20  # of a column that lies in a memory map


def count_values(index: pa.Table, column: str) -> dict[str | None, int]:
    """Records by the value of a text column, most frequent first; empty if there is none.

    A value that is missing counts as None. Memory holds the values that differ, and a part of the
    column.

    Args:
        index: As `open_index` gives it.
        column: Its name.
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
