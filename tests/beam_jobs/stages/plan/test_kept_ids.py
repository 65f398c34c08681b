"""Which record is kept in place of a duplicate: on disk, in ranges of records."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs import bounds
from beam_jobs.dedup.clusters import CLUSTER_SCHEMA
from beam_jobs.stages.plan import stored_records
from beam_jobs.stages.plan.stored_records import LEFT_OUT_RECORDS
from beam_jobs.workspace import Workspace


def members(kept_of, seed):
    """A row for each duplicate and each kept record of {record: its kept record}, shuffled."""
    pairs = [*kept_of.items(), *((kept, kept) for kept in set(kept_of.values()))]
    order = np.random.default_rng(seed).permutation(len(pairs))
    rows = [
        {
            "record_id": f"id-{record}",
            "label": None,
            "kept_id": f"id-{kept}",
            "kept_label": None,
            "kind": "exact",
            "similarity": 1.0,
            "conflict": False,
            "dropped": record != kept,
            "record": record,
        }
        for record, kept in (pairs[place] for place in order)
    ]
    return pa.Table.from_pylist(rows, CLUSTER_SCHEMA)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("range_rows", [1, 7, 1000])
def test_every_duplicate_has_the_id_of_its_kept_record(tmp_path, monkeypatch, seed, range_rows):
    monkeypatch.setattr(bounds, "JOINED_ROWS", range_rows)
    monkeypatch.setattr(bounds, "SORTED_BYTES", 20 * range_rows)
    generator = np.random.default_rng(seed)
    records = int(generator.integers(1, 300))
    kept = generator.integers(0, records, records)
    duplicates = np.flatnonzero((kept != np.arange(records)) & (generator.random(records) < 0.6))
    kept_of = {int(record): int(kept[record]) for record in duplicates if kept[record] % 3 == 0}
    kept_of = {record: one for record, one in kept_of.items() if one not in kept_of}
    workspace = Workspace(tmp_path / "set", None)
    workspace.create()
    table = members(kept_of, seed)
    left_out = table.filter(table["dropped"]).select(LEFT_OUT_RECORDS.names)
    expected = [f"id-{kept_of[one]}" if one in kept_of else None for one in range(records)]
    cuts = np.unique([0, *generator.integers(0, records, 5), records]).tolist()
    ids = []
    tables = [left_out.slice(0, 5), left_out.slice(5)]
    with stored_records._kept_ids(workspace, tables) as kept_ids:
        for begin, end in itertools.pairwise(cuts):  # as units cut them
            ids += kept_ids.take(begin, end).to_pylist()
    assert ids == expected
    assert not list(workspace.scratch_file().parent.iterdir())
