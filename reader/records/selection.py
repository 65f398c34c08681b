"""Which records a condition selects, by the index alone: `where` of `reader.load`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from foundation.storage import Place
from reader.order.numpy_order import Int64Array
from reader.records.split_index import SplitIndex
from shard_format import Schema, label_column
from shard_format.conditions import Expression
from shard_format.kept_columns import is_in_index

ROWS_AT_A_TIME = 1 << 17  # of an index: a MiB for a number, however many shards these are
NONE_MISSING: Mapping[str, str] = {}


def missing_columns(schema: Schema, index: SplitIndex, root: Place) -> dict[str, str]:
    """What to do about the kept columns of records that the index lacks, by their names.

    The index of a set that was built by an earlier version has none of them.

    Args:
        schema: Schema of the set.
        index: Index of the split.
        root: The set, for messages.
    """
    command = "images" if schema.record_type == "image" else schema.record_type
    return {
        name: f" Records have {name!r}, but the set was built without kept columns in its index, "
        "as by earlier versions. To use it here, build it again: 'shardmill preprocess "
        f"{command} SRC --like {root} --out NEW'."
        for name in [one.name for one in schema.kept if is_in_index(one)]
        if name not in index.column_names
    }


def class_names_of(schema: Schema) -> dict[str, tuple[str, ...]]:
    """By the column of a label with one class a record, the names of the classes."""
    labels = [one for one in schema.labels if not one.shape]
    names = {label_column(one.name): one.class_names for one in labels}
    return names | ({"label": labels[0].class_names} if labels else {})


def selected_records(
    where: str,
    index: SplitIndex,
    class_names: Mapping[str, tuple[str, ...]],
    place: Place,
    missing: Mapping[str, str] = NONE_MISSING,
) -> Int64Array:
    """[n] int64 ascending: the numbers of the records that a condition selects.

    A record without a value of a column is selected by no comparison of it.

    Args:
        where: Condition in the syntax of Python, on columns of the index.
        index: Index of the split.
        class_names: By the column of a label the names of its classes, which may be compared with.
        place: The index file, for messages.
        missing: See `missing_columns`.

    Raises:
        UsageError: It is no such condition, names an unknown column, or compares values of other
            types.
    """
    condition = Expression(where, "where=", index.column_names, place, class_names, missing)
    rows = index.select(sorted(condition.columns))
    condition.check(rows.schema, is_number=False)
    selected = [np.zeros(0, np.int64)]
    for begin in range(0, len(rows), ROWS_AT_A_TIME):
        part = rows.slice(begin, ROWS_AT_A_TIME)
        selected.append(begin + np.flatnonzero(condition.selects(part)))
    return np.concatenate(selected)
