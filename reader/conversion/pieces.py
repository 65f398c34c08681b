"""The pieces of a conversion: which records of which split become one file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from foundation.storage import Place
from reader.conversion.base import ConversionPiece
from reader.order.numpy_order import Int64Array
from reader.records.selection import class_names_of, missing_columns, selected_records
from reader.records.split_index import open_lazily
from shard_format import Manifest, UsageError


class SplitRecords(NamedTuple):
    """The records of a split that are converted.

    Attributes:
        split: Name of the split.
        rows: [n] int64, ascending: their numbers; None for all.
        records: Number of them.
        bytes: Their size.
    """

    split: str
    rows: Int64Array | None
    records: int
    bytes: int

    def pieces(self, piece_bytes: int) -> Iterator[ConversionPiece]:
        """Pieces of a size, which differ by at most one record."""
        number = min(self.records, max(1, round(self.bytes / piece_bytes)))
        ends = [self.records * one // number for one in range(number + 1)]
        for one in range(number):
            yield ConversionPiece(self.split, one, number, ends[one], ends[one + 1] - ends[one])

    def rows_of(self, piece: ConversionPiece) -> Int64Array | range:
        """Numbers of the records of a piece."""
        begin, end = piece.first, piece.first + piece.records
        return range(begin, end) if self.rows is None else self.rows[begin:end]


def records_to_convert(root: Place, manifest: Manifest, where: str | None) -> list[SplitRecords]:
    """The records of all splits that have some.

    Args:
        root: The set.
        manifest: Its manifest.
        where: Condition on columns of the index; see `selected_records`.

    Raises:
        UsageError: No record is selected, or it is no such condition.
        ShardSetError: An index is missing.
        DamageError: An index is not what the manifest says.
    """
    if where is None:
        filled = [(name, info) for name, info in manifest.splits.items() if info.records]
        return [SplitRecords(name, None, info.records, info.bytes) for name, info in filled]
    names = class_names_of(manifest.schema)
    chosen = []
    for split, info in manifest.splits.items():
        if not info.records:
            continue
        index = open_lazily(root, manifest, split)
        place = root / manifest.index_file(split)
        missing = missing_columns(manifest.schema, index, root)
        rows = selected_records(where, index, names, place, missing)
        if len(rows):
            lengths = index["length"].to_numpy()
            chosen.append(SplitRecords(split, rows, len(rows), int(np.sum(lengths[rows]))))
    if not chosen:
        raise UsageError(f"where={where!r} selects no record of {root}. Widen the condition.")
    return chosen
