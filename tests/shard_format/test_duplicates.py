"""Which part of the duplicates a cluster is in, and which clusters are shown."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_format import duplicates, naming
from shard_format.duplicates import LeadingClusters, num_parts, parts_of, parts_of_hashes


@pytest.mark.parametrize(
    ("rows", "parts"), [(0, 1), (1, 1), (10, 1), (11, 2), (20, 2), (21, 4), (40, 4), (41, 8)]
)
def test_parts_are_the_least_power_of_two_that_has_the_rows(monkeypatch, rows, parts):
    monkeypatch.setattr(duplicates, "PART_ROWS", 10)
    assert num_parts(rows) == parts


def test_a_million_rows_are_one_file():
    """A number of the format: it must never change."""
    assert [num_parts(2**20), num_parts(2**20 + 1)] == [1, 2]


@given(st.lists(st.text(max_size=5), max_size=30), st.integers(0, 12))
def test_a_part_is_said_by_leading_bits_of_the_hash(ids, bits):
    def leading(name):
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> (64 - bits)

    assert parts_of(pa.array(ids, pa.string()), 1 << bits).tolist() == list(map(leading, ids))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(0, 63))
def test_hashes_are_divided_evenly_by_any_number_of_parts(hashes, bits):
    parts = parts_of_hashes(np.array(hashes, np.uint64), 1 << bits)
    assert parts.tolist() == [one >> (64 - bits) for one in hashes]


_ROWS = st.lists(st.tuples(st.integers(0, 15).map("k{:02}".format), st.booleans()), max_size=40)


@given(st.lists(_ROWS, max_size=4), st.integers(1, 6), st.integers(1, 9))
def test_shown_clusters_are_those_in_conflict_and_then_the_first(files, most, batch):
    merged, together = LeadingClusters(most), LeadingClusters(most)
    for rows in map(sorted, files):
        own = LeadingClusters(most)
        for start in range(0, len(rows), batch):
            ids, conflict = zip(*rows[start : start + batch], strict=True)
            for one in (own, together):
                one.add(pa.array(ids, pa.string()), pa.array(conflict, pa.bool_()))
        merged.merge(own.conflicting, own.first)
    everything = {name for rows in files for name, _ in rows}
    conflicting = {name for rows in files for name, conflict in rows if conflict}
    expected = [*sorted(conflicting), *sorted(everything - conflicting)][:most]
    assert merged.chosen() == together.chosen() == expected


def test_names_of_the_files():
    assert naming.duplicates_file(0, 1) == "duplicates.parquet"
    assert naming.duplicates_file(3, 4) == "duplicates/part-00003.parquet"
    part = naming.duplicates_file(123456, 1 << 20)
    for name in (naming.DUPLICATES, part):
        for folder in ("", "generations/0001/"):
            match = naming.parse_duplicates(folder + name)
            assert match is not None and match["folder"] == folder
            assert bool(naming.DUPLICATES_PART.fullmatch(folder + name)) == (name == part)
    for file in ("duplicates/../x.parquet", "x/duplicates.parquet", "duplicates/part-1.parquet"):
        assert naming.parse_duplicates(file) is None
