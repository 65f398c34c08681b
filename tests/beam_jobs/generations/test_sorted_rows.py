"""Rows of several generations come in the order of their keys, a few of them at a time."""

from __future__ import annotations

import dataclasses
import itertools
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.generations.sorted_rows import SortedRows
from beam_jobs.workspace import Workspace
from shard_format import DamageError, Feature, Schema, file_info, index_parts, naming
from shard_format.index import index_schema
from tests.fixtures.sets import write_shard_set

SCHEMA = Schema("text", (Feature("text", "text"),))
# Runs of shards of keys; few different ones, so that many are equal, in one run and in several.
KEYS = st.integers(0, 6) | st.integers(0, 2**64 - 1)
RUNS = st.lists(st.lists(st.lists(KEYS, max_size=8), min_size=1, max_size=4), max_size=4)


def make_set(root, runs, part_rows):
    """A set whose shards are those of sorted runs, one behind the other; all its rows."""
    shards = []
    for run in runs:
        keys = np.sort(np.array([key for shard in run for key in shard], np.uint64)).tolist()
        for shard in run:
            own, keys = keys[: len(shard)], keys[len(shard) :]
            shards.append([({"text": "a"}, {"key": key}) for key in own])
    manifest = write_shard_set(root, SCHEMA, {"train": shards})
    (whole,) = index_parts.index_tables(root, manifest, "train")
    counts = [len(shard) for shard in shards]
    edges = np.cumsum([0, *counts])
    tables = [whole.slice(begin, size) for begin, size in zip(edges, counts, strict=False)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_parts, "PART_ROWS", part_rows)
        parts = index_parts.write_index(root, "train", counts, tables, index_schema([]))
    files = {part.file: file_info(root / part.file) for part in parts}
    split = dataclasses.replace(manifest.splits["train"], index=parts if len(parts) > 1 else ())
    changed = dataclasses.replace(manifest, splits={"train": split}, files=files)
    return changed, whole.to_pylist()


@given(RUNS, st.integers(1, 12), st.integers(1, 9), st.sets(st.integers(0, 60)), st.lists(KEYS))
def test_rows_are_merged_in_order(tmp_path_factory, runs, part_rows, merged_rows, left_out, added):
    root = tmp_path_factory.getbasetemp() / uuid.uuid4().hex
    manifest, rows = make_set(root, runs, part_rows)
    place = {"shard": 0, "offset": 0, "length": 1, "label": None, "fingerprint": bytes(16)}
    more = [{**place, "record_id": f"new{n}", "key": key} for n, key in enumerate(sorted(added))]
    extra = pa.Table.from_pylist(more, index_schema([])) if added else None
    gone = [number for number in sorted(left_out) if number < len(rows)]
    kept = [row for number, row in enumerate(rows) if number not in left_out]
    kept += more
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "MERGED_ROWS", merged_rows)
        job = (root, manifest, "train", Workspace(root, None), np.array(gone, np.int64), extra)
        scanned = [row for table in SortedRows(*job).scan(["key"]) for row in table.to_pylist()]
        assert [row["key"] for row in scanned] == [row["key"] for row in kept]
        for by in (["key"], ["key", "record_id"]):
            tables = list(SortedRows(*job).in_order(by))
            merged = [row for table in tables for row in table.to_pylist()]
            assert merged == sorted(kept, key=lambda row: [row[name] for name in by])
            keys = [set(table["key"].to_pylist()) for table in tables]
            assert not any(one & other for one, other in itertools.pairwise(keys))


def test_what_is_in_memory_does_not_grow_with_the_rows(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    runs = [[random.integers(0, 2**63, 100).tolist() for _ in range(20)] for _ in range(3)]
    manifest, rows = make_set(tmp_path / "set", runs, 500)
    monkeypatch.setattr(bounds, "MERGED_ROWS", 60)
    merged = SortedRows(tmp_path / "set", manifest, "train", Workspace(tmp_path / "set", None))
    sizes = [len(table) for table in merged.in_order(["key"])]
    assert sum(sizes) == len(rows) == 6000 and max(sizes) <= 2 * 60


def test_an_index_without_some_rows_is_refused(tmp_path):
    manifest, _ = make_set(tmp_path / "set", [[[1, 2], [3]]], 2)
    first, second = (part.file for part in manifest.index_parts("train"))
    (tmp_path / "set" / first).write_bytes((tmp_path / "set" / second).read_bytes())
    merged = SortedRows(tmp_path / "set", manifest, "train", Workspace(tmp_path / "set", None))
    with pytest.raises(DamageError, match=f"{naming.INDEX_DIR}.* has 1 rows.*2 records"):
        list(merged.in_order(["key"]))
