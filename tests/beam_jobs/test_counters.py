"""The summary of a column, whole and in parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.counters import summarize, summarize_column

VALUES = st.lists(st.none() | st.integers(0, 2**40), max_size=12)


@given(st.lists(VALUES, max_size=6))
def test_a_column_in_parts_has_the_summary_of_the_whole(parts):
    tables = [pa.table({"number": pa.array(part, pa.int64())}) for part in parts]
    values = [value for part in parts for value in part if value is not None]
    assert summarize_column(
        lambda names: [one.select(names) for one in tables], "number"
    ) == summarize(np.array(values, np.int64))
