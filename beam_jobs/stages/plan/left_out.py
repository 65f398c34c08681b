"""Examples of the records that --where and --top leave out, for build.json and the report.

Nothing else names these records. A few are chosen by the hash of their ids, so that neither the
order of reading nor the number of workers changes them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.columns import BoolArray, IntArray, uint64
from beam_jobs.staging.sidecars import Sidecars
from shard_format.keys import UInt64Array

MOST_EXAMPLES = 12
_MOST_CHARACTERS = 300  # of a text


class LeftOutExamples:
    """Collects examples of the records that one rule leaves out.

    Args:
        columns: By the name in the option, the column of a sidecar whose value is shown.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._hashes: UInt64Array = np.zeros(0, np.uint64)
        self._records: IntArray = np.zeros(0, np.int64)

    def add(self, begin: int, table: pa.Table, left_out: BoolArray) -> None:
        """Adds the records of a part of a sidecar.

        Args:
            begin: Number of its first record.
            table: Its rows, with `id_hash`.
            left_out: [rows], which of them the rule leaves out.
        """
        rows = np.flatnonzero(left_out)
        hashes = np.concatenate([self._hashes, uint64(table["id_hash"])[rows]])
        first = np.argsort(hashes, kind="stable")[:MOST_EXAMPLES]
        self._hashes = hashes[first]
        self._records = np.concatenate([self._records, begin + rows])[first]

    def described(self, sidecars: Sidecars) -> list[dict[str, Any]]:
        """Hash, id, values and the beginning of the text of each record; for `first_examples`.

        Args:
            sidecars: All columns of the same records.
        """
        rows = sidecars.take(self._records, ["record_id", *self._columns.values()]).to_pylist()
        return [
            {
                "hash": number,
                "record_id": row["record_id"],
                "values": {name: _plain(row[key]) for name, key in self._columns.items()},
                "text": _beginning(example.get("text")),
            }
            for number, row, example in zip(
                self._hashes.tolist(), rows, sidecars.examples(self._records), strict=True
            )
        ]


def first_examples(parts: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Merges the examples of one or several ranges of units, and drops their hashes."""
    ordered = sorted(itertools.chain.from_iterable(parts), key=lambda one: one["hash"])
    keys = ("record_id", "values", "text")
    return [{key: one[key] for key in keys} for one in ordered[:MOST_EXAMPLES]]


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _beginning(text: Any) -> str | None:
    if not text or not isinstance(text[0], bytes):
        return None
    return str(text[0][: 4 * _MOST_CHARACTERS].decode("utf-8", "ignore")[:_MOST_CHARACTERS])
