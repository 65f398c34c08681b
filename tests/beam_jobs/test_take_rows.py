"""Rows of many units come in the order asked for, whatever batches their files have."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.staging.sidecars import take_rows


@given(st.data())
def test_rows_come_in_the_order_asked_for(data):
    sizes = data.draw(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=1))
    tables, numbers = [], []
    for unit, batches in enumerate(sizes):
        rows = [f"{unit}/{row}" for row in range(sum(batches))]
        chunks = np.split(np.array(rows, object), np.cumsum(batches)[:-1])
        tables.append(pa.table({"id": pa.chunked_array(list(map(pa.array, chunks)), pa.string())}))
        numbers += [(unit, row) for row in range(len(rows))]
    asked = data.draw(st.lists(st.sampled_from(numbers), min_size=1))  # some of them twice
    units, rows = np.array(asked, np.int64).T
    with mock.patch.object(bounds, "JOINED_ROWS", data.draw(st.integers(1, 9))):
        taken = take_rows(units, rows, tables.__getitem__)
    assert taken["id"].to_pylist() == [f"{unit}/{row}" for unit, row in asked]
