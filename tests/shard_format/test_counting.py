"""Values of a column of an index are counted, however it is cut into batches."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from shard_format.index import count_values


@given(st.lists(st.lists(st.sampled_from(["en", "de", "", None]), max_size=9), max_size=5))
def test_counts_are_those_of_all_batches(batches):
    chunks = [pa.array(batch, pa.string()) for batch in batches]
    table = pa.table({"language": pa.chunked_array(chunks, pa.string())})
    found = count_values(table, "language")
    assert found == Counter(value for batch in batches for value in batch)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_a_column_that_is_not_there_or_no_text():
    table = pa.table({"chars": [1, 2]})
    assert count_values(table, "chars") == count_values(table, "language") == {}
