"""Clusters: who is one, who is kept, who disagrees."""

from __future__ import annotations

import collections

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_jobs.dedup.cluster_runs import ClusterRuns
from beam_jobs.dedup.clusters import (
    CLUSTER_SCHEMA,
    NO_NEAR_PAIRS,
    Clusters,
    NearPairs,
    find_clusters,
)
from beam_jobs.dedup.exact import exact_pairs
from beam_jobs.options import ImageOptions, PreprocessOptions, TextOptions
from shard_format import UsageError


def test_near_is_a_choice_of_record_types_that_find_near_duplicates():
    for options in (ImageOptions, TextOptions):
        assert options(("src",), "out", dedup="near").dedup == "near"
    with pytest.raises(UsageError, match="Unknown --dedup 'near'"):
        PreprocessOptions(("src",), "out", dedup="near")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab")), min_size=1, max_size=40),
    st.integers(1, 4),
    st.integers(1, 50),
)
def test_exact_duplicates_by_the_obvious_way(sidecars, rows, units, partition_rows):
    rows = [
        {"id": f"{number:03d}", "fingerprint": f"print{value}", "label": label}
        for number, (value, label) in enumerate(rows)
    ]
    of = sidecars(rows, units)
    pairs = exact_pairs(of, None, partition_rows)
    found = find_clusters(of, pairs, NO_NEAR_PAIRS, keep_all=False, drop_conflicts=False)
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["fingerprint"]].append(row)
    several = {key: group for key, group in groups.items() if len(group) > 1}
    members = found.members.to_pylist()
    assert found.number == len(several)
    assert [(row["kept_id"], row["record_id"]) for row in members] == sorted(
        (group[0]["id"], row["id"]) for group in several.values() for row in group
    )
    assert {row["record_id"] for row in members if row["dropped"]} == {
        row["id"] for group in several.values() for row in group[1:]
    }
    assert len(found.dropped) == sum(len(group) - 1 for group in several.values())
    conflicts = {key for key, group in several.items() if len({r["label"] for r in group}) > 1}
    assert found.conflicts == len(conflicts)
    assert all(row["kind"] == "exact" and row["similarity"] == 1 for row in members)


def test_confirmation_has_the_last_word(sidecars):
    of = sidecars([{"id": name, "fingerprint": "one"} for name in "abcd"])
    ids = of.table(0)["record_id"].to_pylist()

    def confirm(records):
        halves = [ids[record] in "ab" for record in records.tolist()]
        return np.array([[half] * 16 for half in halves], np.uint8)

    pairs = exact_pairs(of, confirm)
    assert {frozenset(ids[n] for n in pair) for pair in pairs.tolist()} == {
        frozenset("ab"),
        frozenset("cd"),
    }


def _numbers(of):
    return {name: n for n, name in enumerate(n for _, t in of for n in t["record_id"].to_pylist())}


@pytest.mark.parametrize(
    ("keep_all", "drop_conflicts", "dropped"),
    [(False, False, "bcy"), (False, True, "abcy"), (True, False, ""), (True, True, "")],
)
def test_near_links_join_exact_groups(sidecars, keep_all, drop_conflicts, dropped):
    """a = b by pixels, b ~ c by looks with another label; x ~ y with one label."""
    rows = [
        {"id": "a", "fingerprint": "1", "label": "cat"},
        {"id": "b", "fingerprint": "1", "label": "cat"},
        {"id": "c", "fingerprint": "2", "label": "dog"},
        {"id": "x", "fingerprint": "3", "label": "cat"},
        {"id": "y", "fingerprint": "4", "label": "cat"},
        {"id": "z", "fingerprint": "5", "label": "cat"},
    ]
    of = sidecars(rows, units=2)
    at = _numbers(of)
    near = NearPairs(
        np.array([[at["b"], at["c"]], [at["y"], at["x"]]]), np.array([0.9, 0.95], np.float32)
    )
    found = find_clusters(
        of, exact_pairs(of), near, keep_all=keep_all, drop_conflicts=drop_conflicts
    )
    rows = {row["record_id"]: row for row in found.members.to_pylist()}
    assert "".join(sorted(name for name, row in rows.items() if row["dropped"])) == dropped
    assert (found.number, found.conflicts) == (2, 1)
    assert [rows[name]["kept_id"] for name in "abcxy"] == ["a", "a", "a", "x", "x"]
    assert [rows[name]["kind"] for name in "abcxy"] == ["exact", "exact", "near", "exact", "near"]
    assert [rows[name]["conflict"] for name in "abcxy"] == [True, True, True, False, False]
    assert rows["y"]["similarity"] == np.float32(0.95)
    assert found.lost_to_conflict == (1 if drop_conflicts and not keep_all else 0)


def test_a_leak_is_mended_on_the_side_of_training(sidecars):
    rows = [
        {"id": "a", "fingerprint": "1", "split": "train"},
        {"id": "b", "fingerprint": "1", "split": "test"},
        {"id": "c", "fingerprint": "1", "split": "validation"},
    ]
    of = sidecars(rows)
    found = find_clusters(of, exact_pairs(of), NO_NEAR_PAIRS, keep_all=False, drop_conflicts=False)
    assert {row["kept_id"] for row in found.members.to_pylist()} == {"b"}


def test_no_duplicates(sidecars):
    of = sidecars([{"id": "a"}, {"id": "b"}])
    found = find_clusters(of, exact_pairs(of), NO_NEAR_PAIRS, keep_all=False, drop_conflicts=True)
    assert (found.number, len(found.dropped), len(found.members)) == (0, 0, 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 30), min_size=2, max_size=40), max_size=12),
    st.integers(1, 200),
)
def test_runs_of_clusters_are_sorted_on_disk(tmp_path_factory, parts, rows):
    """As one sort of all rows, with any number of rows in memory."""
    tables = [_cluster_rows(number, values) for number, values in enumerate(parts)]
    folder = tmp_path_factory.getbasetemp() / "runs"
    with ClusterRuns(folder, len(parts), rows) as runs:
        for table in tables:
            order = [("kept_id", "ascending"), ("record_id", "ascending")]
            runs.add(Clusters(table.sort_by(order), len(table) - 1, 1, 0))
        found = list(runs.in_order())
    assert not folder.exists()
    whole = pa.concat_tables([CLUSTER_SCHEMA.empty_table(), *tables])
    whole = whole.sort_by([("kept_id", "ascending"), ("record_id", "ascending")])
    assert pa.concat_tables([CLUSTER_SCHEMA.empty_table(), *found]).equals(whole)
    assert (runs.dropped, runs.conflicts) == (len(whole) - len(parts), len(parts))


def _cluster_rows(part, values):
    """Clusters of a partition; the same ids sort before and behind those of other partitions."""
    kept = [f"{value % 7}é-{part}" for value in values]
    return pa.table(
        {
            "record_id": [f"{value}-{part}-{row}" for row, value in enumerate(values)],
            "label": [None] * len(values),
            "kept_id": kept,
            "kept_label": [None] * len(values),
            "kind": ["exact"] * len(values),
            "similarity": [1.0] * len(values),
            "conflict": [True] * len(values),
            "dropped": [row > 0 for row in range(len(values))],
            "record": list(range(len(values))),
        }
    ).cast(CLUSTER_SCHEMA)
