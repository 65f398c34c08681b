"""The index of a split: its bytes, and counts of the values of a column."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_format import IndexWriter, index_schema, open_index
from shard_format.index import count_values
from tests.fixtures.proofs import examples


def _rows(count: int) -> pa.Table:
    values = {
        "shard": [0] * count,
        "offset": list(range(count)),
        "length": [7] * count,
        "key": list(range(count)),
        "record_id": [f"record {number}" for number in range(count)],
        "label": [number if number % 3 else None for number in range(count)],
        "fingerprint": [bytes([number]) * 16 for number in range(count)],
        "sums": [[float(number)] * 3 for number in range(count)],
    }
    schema = index_schema([pa.field("sums", pa.list_(pa.float64(), 3))])
    return pa.table(values, schema=schema)


def _bytes(folder: Path, batches: list[pa.Table]) -> bytes:
    place = folder / "train.arrow"
    with IndexWriter(place, [batches[0].schema.field("sums")]) as writer:
        for batch in batches:
            writer.append(batch)
    assert open_index(place).to_pylist() == pa.concat_tables(batches).to_pylist()
    return place.read_bytes()


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 5))
def test_the_bytes_depend_on_the_values_alone(
    tmp_path_factory, sizes: list[int], before: int
) -> None:
    """Slices of larger tables, tables of several chunks, and new tables."""
    folder = tmp_path_factory.mktemp("index", numbered=True)
    rows = _rows(before + sum(sizes) + 5)
    slices, chunked, fresh, start = [], [], [], before
    for size in sizes:
        own = rows.slice(start, size)
        slices.append(own)
        chunked.append(pa.concat_tables([own.slice(at, 1) for at in range(size)] or [own]))
        fresh.append(pa.Table.from_pylist(own.to_pylist(), schema=rows.schema))
        start += size
    assert _bytes(folder, slices) == _bytes(folder, chunked) == _bytes(folder, fresh)


@given(st.lists(st.lists(st.sampled_from(["en", "de", "", None]), max_size=9), max_size=5))
def test_counts_are_those_of_all_batches(batches):
    chunks = [pa.array(batch, pa.string()) for batch in batches]
    table = pa.table({"language": pa.chunked_array(chunks, pa.string())})
    counts = count_values(table, "language")
    assert counts == Counter(value for batch in batches for value in batch)
    assert list(counts.values()) == sorted(counts.values(), reverse=True)


def test_a_column_that_is_not_there_or_no_text():
    table = pa.table({"chars": [1, 2]})
    assert count_values(table, "chars") == count_values(table, "language") == {}
