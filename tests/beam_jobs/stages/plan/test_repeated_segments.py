"""Which of equal segments is kept: whole columns, checked against the obvious way."""

from __future__ import annotations

import collections

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_jobs.dedup.text.repeated_segments import SEGMENT_HASHES, plan_removals
from beam_jobs.dedup.text.segments import BLANK, SHORT
from beam_jobs.staging.assignment import LEFT_OUT
from beam_jobs.staging.recipes import RecipeUnit, RecipeWriter
from beam_jobs.workspace import Workspace
from shard_format import id_hash

NAMES = ["train", "validation", "test", "other"]
RANK = {"test": 0, "validation": 1, "other": 2, "train": 3}
parts = st.sampled_from([BLANK, SHORT, *range(2, 9), 2**64 - 1])
split = st.sampled_from([*range(len(NAMES)), LEFT_OUT])
documents = st.lists(st.tuples(st.lists(parts, max_size=5), split), min_size=1, max_size=12)


@pytest.fixture
def planned(sidecars, assignment, tmp_path):
    """Plans documents of (hashes of segments, split); ({id: removed segments}, ids left out)."""

    def plan(found, units, partition_rows):
        by_id = {f"r{number}": one for number, one in enumerate(found)}
        of = sidecars([{"id": name} for name in by_id], units)
        kind = pa.large_list(pa.uint64())
        of.tables = [
            table.append_column(
                SEGMENT_HASHES,
                pa.array([by_id[name][0] for name in table["record_id"].to_pylist()], kind),
            )
            for table in of.tables
        ]
        ids = [name for table in of.tables for name in table["record_id"].to_pylist()]
        assigned = assignment(of)
        assigned.names = NAMES
        assigned.split_of[:] = [by_id[name][1] for name in ids]
        before = assigned.split_of.copy()
        dropped, emptied = plan_removals(of, assigned, tmp_path / "dropped.bin", partition_rows)
        gone = dropped.of(np.arange(len(ids))).to_pylist()
        assert len(dropped) == sum(map(len, gone))
        out = (before != LEFT_OUT) & (assigned.split_of == LEFT_OUT)
        assert emptied == out.sum()
        return dict(zip(ids, gone, strict=True)), {ids[at] for at in np.flatnonzero(out)}

    return plan


def obvious(found):
    stands = collections.defaultdict(list)
    for number, (hashes, split) in enumerate(found):
        for part, value in enumerate(hashes):
            if value > SHORT and split != LEFT_OUT:
                rank = RANK[NAMES[split]]
                stands[value].append((rank, id_hash(f"r{number}"), number, part))
    gone = {f"r{number}": [] for number in range(len(found))}
    for places in stands.values():
        for _, _, number, part in sorted(places)[1:]:
            gone[f"r{number}"].append(part)
    emptied = {
        f"r{number}"
        for number, (hashes, _) in enumerate(found)
        if gone[f"r{number}"] and len(gone[f"r{number}"]) == sum(value != BLANK for value in hashes)
    }
    return {name: sorted(parts) for name, parts in gone.items()}, emptied


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents, st.integers(1, 3), st.integers(1, 20))
def test_as_the_obvious_way(planned, found, units, partition_rows):
    assert planned(found, units, partition_rows) == obvious(found)


def test_passes_do_not_grow_with_partitions(sidecars, planned, monkeypatch):
    """Segments wait for their partition in files: time is linear in the corpus."""
    kind, passes = type(sidecars([{"id": "r0"}], 1)), []
    real = kind.__iter__
    monkeypatch.setattr(kind, "__iter__", lambda self: passes.append(0) or real(self))
    numbered = [([number % 5 + 2, 9, 10 + number], 0) for number in range(40)]
    counts = []
    for partition_rows in (1000, 7):
        passes.clear()
        assert planned(numbered, 3, partition_rows) == obvious(numbered)
        counts.append(len(passes))
    assert counts[0] == counts[1]


def test_a_recipe_is_known_by_the_removed_segments(tmp_path):
    """A shard of a build that was stopped must not be used where other segments are removed."""
    workspace = Workspace(tmp_path / "out", None)
    workspace.create()

    def key(lists):
        def columns(units, rows):
            if lists is None:
                return {}
            kind = pa.large_list(pa.int32())
            return {"removed": pa.array([lists[row] for row in rows.tolist()], kind)}

        writer = RecipeWriter(
            workspace, "set", {"train": 1}, [RecipeUnit("unit", "")], b"", columns
        )
        rows = np.arange(3)
        writer.append("train", rows * 0, rows * 0, rows, rows.astype(np.uint64))
        (spec,) = writer.finish()
        return spec.recipe_key

    cases = [None, [[], [], []], [[1], [], []], [[2], [], []], [[], [1], []], [[1, 2], [], []]]
    assert len({key(lists) for lists in cases}) == len(cases)
    assert key(cases[2]) == key(cases[2])
