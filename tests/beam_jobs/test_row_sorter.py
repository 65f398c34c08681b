"""Rows come back by key and record id, from memory or from a file, some at a time."""

from __future__ import annotations

import contextlib
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.staging import row_sorter
from beam_jobs.staging.row_sorter import RowSorter

_SCHEMA = pa.schema([("key", pa.uint64()), ("record_id", pa.string()), ("label", pa.string())])
_KEYS = st.integers(0, 5) | st.integers(0, 2**64 - 1)  # the first ones often are equal
_ROWS = st.lists(st.tuples(_KEYS, st.text(max_size=4)), max_size=60, unique=True)


@contextlib.contextmanager
def _sorter(path, rows, batch):
    with contextlib.closing(RowSorter(path, _SCHEMA, ("key", "record_id"))) as sorter:
        for start in range(0, len(rows), batch):
            keys, ids = zip(*rows[start : start + batch], strict=True)
            labels = [f"of {one}" if one else None for one in ids]
            sorter.append(pa.table([keys, ids, labels], schema=_SCHEMA))
        yield sorter


@given(_ROWS, st.integers(1, 9), st.integers(1, 900), st.integers(1, 20), st.integers(1, 6))
def test_rows_come_back_in_order(tmp_path_factory, rows, batch, held, joined, batches):
    path = tmp_path_factory.getbasetemp() / uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_sorter, "_HELD_BYTES", held)
        patch.setattr(row_sorter, "_JOINED_ROWS", joined)
        patch.setattr(row_sorter, "_RUN_BATCHES", batches)
        with _sorter(path, rows, batch) as sorter:
            assert sorter.count == len(rows)
            parts = list(sorter.in_order())
    in_order = [tuple(row.values()) for part in parts for row in part.to_pylist()]
    assert in_order == [(key, one, f"of {one}" if one else None) for key, one in sorted(rows)]
    assert all(part.schema == _SCHEMA and len(part.to_batches()) == 1 for part in parts)
    assert not path.exists()


def test_a_part_of_many_rows_has_as_many_bytes_as_wait_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(row_sorter, "_HELD_BYTES", 100_000)
    keys = np.random.default_rng(0).integers(0, 2**64, 30_000, np.uint64).tolist()
    rows = [(key, f"{number:020}") for number, key in enumerate(keys)]
    with _sorter(tmp_path / "rows", rows, 500) as sorter:
        assert sorter._held_bytes < 100_000
        assert (tmp_path / "rows").exists()
        sizes = [part.nbytes for part in sorter.in_order()]
    assert sum(sizes) > 15 * 100_000
    assert max(sizes) < 200_000
