"""Refused records of a unit, on their way to quarantine: an Arrow file, one row a batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa

from beam_jobs.corpus.record import FILTER, Rejection

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


class RejectWriter:
    """Writes refused records one by one: their originals may be large, and are never kept."""

    def __init__(self, path: Path) -> None:
        self.refused: Counter[str] = Counter()
        self.filtered: Counter[str] = Counter()
        self.ignored = 0
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, REJECT_SCHEMA)

    def append(self, position: int, record_id: str, label: str | None, reject: Rejection) -> None:
        """Adds one record; `position` is its place in the unit, as listed."""
        (self.filtered if reject.stage == FILTER else self.refused)[reject.reason] += 1
        row = (position, record_id, label, reject.stage, reject.reason, reject.detail)
        columns = [
            pa.array([value], field.type)
            for value, field in zip(row, list(REJECT_SCHEMA)[:-1], strict=True)
        ]
        columns.append(_without_copy(reject.data))
        self._writer.write_batch(pa.record_batch(columns, schema=REJECT_SCHEMA))

    def __enter__(self) -> RejectWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        self._sink.close()


def _without_copy(data: bytes | None) -> pa.LargeBinaryArray:
    """A column of one value that lies where the bytes lie: an original may have 512 MiB."""
    if data is None:
        return pa.array([None], pa.large_binary())
    offsets = pa.array([0, len(data)], pa.int64()).buffers()[1]
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(data)])
