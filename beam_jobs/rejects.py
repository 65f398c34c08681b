"""The rejected records of a unit until the commit: an Arrow file with one record per batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from beam_jobs.corpus.record import FILTER, Rejection
from foundation import storage
from foundation.storage import Place
from shard_format.dropped import QUARANTINE_SCHEMA

# What the set keeps, and in which order: the position of a record in its unit, as listed.
_SCHEMA = pa.schema([pa.field("position", pa.int64(), nullable=False), *QUARANTINE_SCHEMA])


class RejectWriter:
    """Writes rejected records one by one, since their originals may be large.

    Args:
        sink: An open file; it stays open.
    """

    def __init__(self, sink: pa.NativeFile) -> None:
        self.refused: Counter[str] = Counter()
        self.filtered: Counter[str] = Counter()
        self.ignored = 0
        self._writer = pa.ipc.new_file(sink, _SCHEMA)

    def append(self, position: int, record_id: str, label: str | None, reject: Rejection) -> None:
        """Adds one record; `position` is its place in the unit, as listed."""
        (self.filtered if reject.stage == FILTER else self.refused)[reject.reason] += 1
        row = (position, record_id, label, reject.stage, reject.reason, reject.detail)
        short = [pa.array([value], kind) for value, kind in zip(row, _SCHEMA.types, strict=False)]
        batch = pa.record_batch([*short, _without_copy(reject.data)], schema=_SCHEMA)
        self._writer.write_batch(batch)

    def __enter__(self) -> RejectWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def read_rejects(place: Place) -> Iterator[pa.RecordBatch]:
    """The rejected records of a unit as rows of the quarantine, one by one, in listing order."""
    # Positions come from a memory map; originals are read one at a time, since a memory map would
    # keep all of them resident.
    mapped = pa.ipc.open_file(storage.open_arrow(place))
    numbers = range(mapped.num_record_batches)
    positions = [mapped.get_batch(number)["position"][0].as_py() for number in numbers]
    with storage.open_arrow(place, mapped=False) as source:
        file = pa.ipc.open_file(source)
        for number in sorted(numbers, key=positions.__getitem__):
            yield file.get_batch(number).select(QUARANTINE_SCHEMA.names)


def _without_copy(data: bytes | None) -> pa.LargeBinaryArray:
    """A column of one value that shares the memory of the bytes: they may be 512 MiB."""
    if data is None:
        return pa.array([None], pa.large_binary())
    offsets = pa.array([0, len(data)], pa.int64()).buffers()[1]
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(data)])
