"""Sidecars of a table in memory, for what reads the columns of a corpus."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from beam_jobs.columns import IntArray
from beam_jobs.dedup.text.normalization import fingerprints
from beam_jobs.dedup.text.shingles import shingles
from beam_jobs.dedup.text.signatures import signatures
from beam_jobs.staging.sidecars import Sidecars


def fixed_binary(rows: npt.NDArray[np.uint8]) -> pa.FixedSizeBinaryArray:
    """[n] fixed-size binary of [n, size] bytes."""
    data = [None, pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(rows.shape[1]), len(rows), data)


class TableSidecars(Sidecars):
    """The rows of a table as those of staged units.

    Args:
        table: The columns that are read.
        folder: Where to write what does not fit in memory.
        unit_rows: Rows of a unit.

    Attributes:
        rows: The table.
        taken: Number of records that each `take` was asked for.
    """

    def __init__(self, table: pa.Table, folder: Path, unit_rows: int = 1000) -> None:
        begins = [*range(0, len(table), unit_rows), len(table)]
        self.keys = [str(begin) for begin in begins[:-1]]
        self.begins = np.array(begins, np.int64)
        self.records = len(table)
        self.taken: list[int] = []
        self._on_read = lambda rows: None
        self.rows = table
        self._folder = folder

    @override
    def table(self, unit: int) -> pa.Table:
        begin, end = self.begins[unit : unit + 2].tolist()
        return self.rows.slice(begin, end - begin)

    @override
    def take(self, records: IntArray, columns: Sequence[str]) -> pa.Table:
        self.taken.append(len(records))
        return super().take(records, columns)

    @override
    def scratch_file(self) -> Path:
        return self._folder / uuid.uuid4().hex


def sidecars_of_looks(
    hashes: npt.NDArray[np.uint8], thumbnails: npt.NDArray[np.uint8], folder: Path
) -> TableSidecars:
    """The sidecars of images: [n, HASH_BYTES] and [n, THUMBNAIL_BYTES]."""
    columns = {"perceptual_hash": hashes, "thumbnail": thumbnails}
    table = {name: fixed_binary(column) for name, column in columns.items()}
    return TableSidecars(pa.table(table), folder)


def sidecars_of_texts(
    texts: pa.LargeStringArray, folder: Path, unit_rows: int = 1000
) -> TableSidecars:
    """The sidecars of [n] documents, computed as by staging."""
    sets = shingles(texts)
    columns = {
        "fingerprint": fingerprints(texts),
        "near_signature": fixed_binary(signatures(sets).astype("<u4").view(np.uint8)),
        "near_shingles": sets.column(),
    }
    return TableSidecars(pa.table(columns), folder, unit_rows)
