"""What a check is, and the rows that it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.audit.audited_set import AuditedSet
from beam_jobs.columns import IntArray

_ROW = pa.schema(
    [
        pa.field("row", pa.int64()),  # number of the record; null for a class or a column
        pa.field("value", pa.float64()),
        pa.field("column", pa.string()),
        pa.field("other", pa.string()),
        pa.field("other_row", pa.int64()),
        pa.field("split", pa.string()),
    ]
)


class Check(NamedTuple):
    """A kind of finding.

    Attributes:
        title: Heading on the page.
        meaning: What is found, and what its value is; "{0:g}" is the threshold.
        threshold: The default.
        find: From a set and the threshold to `flagged` rows, the worst first; None if the set has
            nothing that could be checked.
        of_texts: The default for documents, if that is another one.
    """

    title: str
    meaning: str
    threshold: float
    find: Callable[[AuditedSet, float], pa.Table | None]
    of_texts: float | None = None


def flagged(
    rows: IntArray | Sequence[int | None],
    values: npt.NDArray[np.float64] | Sequence[float],
    *,
    column: Sequence[str] | None = None,
    other: Sequence[str | None] | None = None,
    other_rows: IntArray | None = None,
    splits: Sequence[str | None] | None = None,
) -> pa.Table:
    """What a check returns.

    Args:
        rows: [n] numbers of records, the worst first; None for what is no record.
        values: [n] what was compared with the threshold.
        column: [n] the columns that the values are of.
        other: [n] what a record or a name is compared with: a class, a language, a value.
        other_rows: [n] numbers of the records that these are compared with.
        splits: [n] the splits that something other than a record is about.
    """
    size = len(rows)
    nothing = [None] * size
    return pa.table(
        {
            "row": rows,
            "value": np.asarray(values, np.float64),
            "column": column or nothing,
            "other": other or nothing,
            "other_row": nothing if other_rows is None else other_rows,
            "split": splits or nothing,
        },
        _ROW,
    )


def below(values: npt.NDArray[np.float64] | None, threshold: float) -> pa.Table | None:
    """The records with a lower value, the lowest first; None without values."""
    if values is None:
        return None
    rows = np.flatnonzero(values < threshold)
    rows = rows[np.argsort(values[rows], kind="stable")]
    return flagged(rows, values[rows])
