"""Refused records of a unit, on their way to quarantine: an Arrow file, one row a batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

REJECT_SCHEMA = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),  # in the unit, as listed
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("bytes", pa.large_binary()),  # null where the file could not be read
    ]
)


class Reject(NamedTuple):
    """Why a record was refused, at which stage, and its original; None if it cannot be kept."""

    stage: str
    reason: str
    detail: str
    data: bytes | None


class RejectWriter:
    """Writes refused records one by one: their originals may be large, and are never kept."""

    def __init__(self, path: Path) -> None:
        self.reasons: Counter[str] = Counter()
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, REJECT_SCHEMA)

    def append(self, position: int, record_id: str, label: str | None, reject: Reject) -> None:
        """Adds one record; `position` is its place in the unit, as listed."""
        self.reasons[reject.reason] += 1
        row = (position, record_id, label, *reject)
        columns = [
            pa.array([value], field.type) for value, field in zip(row, REJECT_SCHEMA, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(columns, schema=REJECT_SCHEMA))

    def __enter__(self) -> RejectWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        self._sink.close()
