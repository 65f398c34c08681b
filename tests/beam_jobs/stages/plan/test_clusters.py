"""Clusters: who is one, who is kept, who disagrees."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.dedup.clusters import (
    CLUSTER_SCHEMA,
    Clusters,
)
from beam_jobs.options import ImageOptions, PreprocessOptions, TextOptions
from beam_jobs.stages.plan import find_duplicates
from beam_jobs.workspace import Workspace, read_table
from shard_format import UsageError
from tests.fixtures.proofs import examples


def test_near_is_a_choice_of_record_types_that_find_near_duplicates():
    for options in (ImageOptions, TextOptions):
        assert options(("src",), "out", dedup="near").dedup == "near"
    with pytest.raises(UsageError, match="Unknown --dedup 'near'"):
        PreprocessOptions(("src",), "out", dedup="near")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(
    st.lists(st.lists(st.integers(0, 30), min_size=2, max_size=40), max_size=12),
    st.integers(1, 20_000),
)
def test_clusters_are_sorted_on_disk(tmp_path_factory, parts, held):
    """As one sort of all rows, with any number of bytes in memory."""
    tables = [_cluster_rows(number, values) for number, values in enumerate(parts)]
    workspace = Workspace(tmp_path_factory.mktemp("clusters") / "set", None)
    workspace.create()
    clusters = (Clusters(table, len(table) - 1, 1, 0) for table in tables)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "SORTED_BYTES", held)
        patch.setattr(bounds, "JOINED_ROWS", 1)
        on_disk = find_duplicates.sort_clusters(clusters, workspace)
    whole = pa.concat_tables([CLUSTER_SCHEMA.empty_table(), *tables])
    whole = whole.sort_by([("kept_id", "ascending"), ("record_id", "ascending")])
    assert read_table(workspace.clusters).equals(whole)
    assert (on_disk.num_dropped, on_disk.conflicts) == (len(whole) - len(parts), len(parts))


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
