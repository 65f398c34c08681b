"""Quarantine and duplicates are read in pieces; the pieces add up."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shard_format import DamageError, Ledger, Manifest, Schema, naming
from shard_format import dropped as module
from shard_format.dropped import read_columns, read_refused, refused_bytes
from shard_format.duplicates import count_duplicates

MANIFEST = Manifest("x", Schema("image", ()), {}, Ledger(0, 0, 0, 0, 0, {}), {}, {})


@pytest.fixture
def quarantined(tmp_path):
    """(directory, manifest) with 70 refused records in two parts, in groups of 8 rows."""
    rows = [
        {"record_id": f"r{number}", "label": None, "stage": "read", "detail": f"detail {number}"}
        | {"reason": "rare" if number in (41, 66) else "common", "bytes": bytes([number]) * 1000}
        for number in range(70)
    ]
    (tmp_path / naming.QUARANTINE_DIR).mkdir()
    names = [naming.quarantine_file(part) for part in range(2)]
    for name, part in zip(names, (rows[:40], rows[40:]), strict=True):
        pq.write_table(pa.Table.from_pylist(part), tmp_path / name, row_group_size=8)
    return tmp_path, dataclasses.replace(MANIFEST, files={name: {} for name in names})


@pytest.mark.parametrize("batch_rows", [1, 7, 65_536])
def test_one_example_of_every_reason(quarantined, monkeypatch, batch_rows):
    monkeypatch.setattr(module, "_BATCH_ROWS", batch_rows)
    directory, manifest = quarantined
    common, rare = read_refused(directory, manifest)
    assert (common.reason, common.records, common.record_id) == ("common", 68, "r0")
    assert (rare.reason, rare.records, rare.record_id) == ("rare", 2, "r41")
    assert (rare.detail, rare.stage, rare.label) == ("detail 41", "read", None)
    assert refused_bytes(directory, rare, 1 << 20) == bytes([41]) * 1000
    assert refused_bytes(directory, rare, 100) is None


def test_nothing_refused(tmp_path):
    assert read_refused(tmp_path, MANIFEST) == []
    assert count_duplicates(tmp_path, MANIFEST) is None


def test_only_files_of_the_quarantine_are_read(tmp_path):
    files = {"quarantine/../../secret.parquet": {}, "quarantine/part-1.parquet": {}}
    assert read_refused(tmp_path, dataclasses.replace(MANIFEST, files=files)) == []


@pytest.mark.parametrize("group", [1, 3, 100])
def test_clusters_are_counted_over_groups(tmp_path, group):
    rows = [
        {"kept_id": f"k{number // 3}", "record_id": f"r{number}", "conflict": number == 4}
        | {"kind": "near" if number % 2 else "exact", "dropped": number != 0}
        for number in range(10)
    ]
    path = tmp_path / naming.DUPLICATES
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=group)
    manifest = dataclasses.replace(MANIFEST, files={naming.DUPLICATES: {}})
    assert count_duplicates(tmp_path, manifest) == (4, 5, 5, 1, 9, 0)


def test_a_column_that_is_not_there(quarantined):
    directory, manifest = quarantined
    with pytest.raises(DamageError, match="no column colour"):
        list(read_columns(directory, next(iter(manifest.files)), ["reason", "colour"]))
