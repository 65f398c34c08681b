"""Exact duplicates: of all records with one fingerprint, one is kept.

Kept is the record whose id sorts first, so the choice depends neither on the seed nor on the order
of reading. The fingerprint space is worked through in partitions, so memory has a bound.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import IntArray, fixed_bytes
from beam_jobs.sidecars import Sidecars

# Rows of one partition: 24 bytes each while sorted, so about 100 MiB.
PARTITION_ROWS = 4 << 20

# unit -> rows to leave out, ascending
Dropped = dict[int, IntArray]


def find_duplicates(sidecars: Sidecars, partition_rows: int = PARTITION_ROWS) -> Dropped:
    """The rows of every unit that repeat another record.

    Args:
        sidecars: All staged units.
        partition_rows: About how many rows are compared at a time.
    """
    partitions = -(-sidecars.records // partition_rows)
    dropped: dict[int, list[IntArray]] = {}
    for partition in range(partitions):
        units, rows = _repeated(sidecars, partition, partitions)
        for unit, losers in _losers(sidecars, units, rows):
            dropped.setdefault(unit, []).append(losers)
    return {unit: np.sort(np.concatenate(parts)) for unit, parts in dropped.items()}


def _repeated(sidecars: Sidecars, partition: int, partitions: int) -> tuple[IntArray, IntArray]:
    """(units, rows) of the records whose first 64 fingerprint bits occur more than once.

    Most records end here, so the rest may use slower means.
    """
    heads: list[npt.NDArray[np.uint64]] = []
    units: list[IntArray] = []
    rows: list[IntArray] = []
    for unit, table in sidecars:
        fingerprints = fixed_bytes(table["fingerprint"], 16)
        head = np.ascontiguousarray(fingerprints[:, :8]).view(np.uint64)[:, 0]
        inside = np.flatnonzero(head % np.uint64(partitions) == partition)
        heads.append(head[inside])
        rows.append(inside)
        units.append(np.full(len(inside), unit))
    head, unit_of, row_of = np.concatenate(heads), np.concatenate(units), np.concatenate(rows)
    order = np.argsort(head)
    head = head[order]
    equal = head[1:] == head[:-1]
    repeated = order[np.concatenate(([False], equal)) | np.concatenate((equal, [False]))]
    return unit_of[repeated], row_of[repeated]


def _losers(sidecars: Sidecars, units: IntArray, rows: IntArray) -> list[tuple[int, IntArray]]:
    parts = []
    for unit in np.unique(units).tolist():
        taken = rows[units == unit]
        columns = sidecars.table(unit).select(["fingerprint", "record_id"]).take(taken)
        columns = columns.append_column("unit", pa.array(np.full(len(taken), unit)))
        parts.append(columns.append_column("row", pa.array(taken)))
    if not parts:
        return []
    table = pa.concat_tables(parts).sort_by(
        [("fingerprint", "ascending"), ("record_id", "ascending")]
    )
    fingerprints = fixed_bytes(table["fingerprint"], 16)
    same_as_before = np.all(fingerprints[1:] == fingerprints[:-1], axis=1)
    losers = np.flatnonzero(same_as_before) + 1
    unit_of = table["unit"].to_numpy()[losers]
    row_of = table["row"].to_numpy()[losers]
    return [(unit, row_of[unit_of == unit]) for unit in np.unique(unit_of).tolist()]
