"""Rows come back in any order, from memory or a file; the order of a unit is that of its keys."""

from __future__ import annotations

import contextlib
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.staging import row_spool
from beam_jobs.staging.row_spool import RowSpool, shuffle_order

_SCHEMA = pa.schema([("key", pa.uint64()), ("record_id", pa.string()), ("label", pa.string())])
_ROWS = st.lists(
    st.tuples(
        st.integers(0, 5) | st.integers(0, 2**64 - 1),  # the first ones often are equal
        st.text(max_size=4),
        st.none() | st.text(max_size=9),
    ),
    max_size=40,
)


@contextlib.contextmanager
def _spooled(path, rows, batch, held, joined):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_spool, "_HELD_ROWS", held)
        patch.setattr(row_spool, "_JOINED_ROWS", joined)
        with contextlib.closing(RowSpool(path, _SCHEMA)) as spool:
            for start in range(0, len(rows), batch):
                columns = zip(*rows[start : start + batch], strict=True)
                spool.append(pa.table([*map(list, columns)], schema=_SCHEMA))
            yield spool


def _path(factory):
    return factory.getbasetemp() / uuid.uuid4().hex


@given(_ROWS, st.integers(1, 9), st.integers(1, 50), st.integers(1, 20), st.randoms())
def test_rows_come_back_in_any_order(tmp_path_factory, rows, batch, held, joined, draw):
    path = _path(tmp_path_factory)
    order = list(range(len(rows)))
    draw.shuffle(order)
    with _spooled(path, rows, batch, held, joined) as spool:
        parts = list(spool.take(np.array(order, np.int64)))
        assert path.exists() == (len(rows) > held)
        assert spool.count == len(rows)
        found = [tuple(row.values()) for part in parts for row in part.to_pylist()]
        assert found == [rows[number] for number in order]
        assert all(len(part) <= held and part.schema == _SCHEMA for part in parts)
        ids = spool.columns(["record_id", "key"])
        assert ids.column_names == ["record_id", "key"]
        assert ids["record_id"].to_pylist() == [row[1] for row in rows]
    assert not path.exists()


@given(_ROWS, st.integers(1, 50), st.integers(1, 20))
def test_the_record_id_breaks_a_tie_of_keys(tmp_path_factory, rows, held, joined):
    with _spooled(_path(tmp_path_factory), rows, 3, held, joined) as spool:
        found = [rows[number][:2] for number in shuffle_order(spool).tolist()]
    assert found == sorted((key, name) for key, name, _ in rows)
