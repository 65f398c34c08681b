"""Files that the table of --labels does not name: in quarantine by their names, not their bytes."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from beam_jobs.quarantine import Exported, export, reasons
from shard_format import load_manifest
from shard_format.verification import verify


@pytest.fixture
def partly_named(make_images, build, tmp_path):
    """(corpus of 12 images, a table that names 3 of them, its further rows, set)."""
    corpus, table = make_images(12), tmp_path / "labels.csv"
    names = [str(path.relative_to(corpus)) for path in sorted(corpus.rglob("*.jpg"))]
    rows = [f"{name},{'ab'[number % 2]}" for number, name in enumerate(names)]
    table.write_text("\n".join(["path,label", *rows[:3]]))
    build(corpus, "set", labels=str(table))
    return corpus, table, rows[3:], tmp_path / "set"


def test_names_are_kept_and_no_bytes(partly_named):
    *_, out = partly_named
    ledger = load_manifest(out).ledger
    assert (ledger.read, ledger.kept, ledger.quarantined) == (12, 3, 9)
    (reason,) = reasons(out)
    assert (reason.reason, reason.records, reason.bytes) == ("no-row", 9, 0)
    (part,) = (out / "quarantine").iterdir()
    assert pq.read_table(part)["bytes"].null_count == 9
    assert verify(out)[1] == []


def test_an_export_says_where_the_bytes_are(partly_named, tmp_path, shardmill):
    *_, out = partly_named
    assert export(out, tmp_path / "refused") == Exported(written=0, without_bytes=0, in_source=9)
    done = shardmill("quarantine", "export", out, "--to", tmp_path / "again")
    assert "note: 9 files that no row of --labels names, in the source alone" in done.stdout
    listed = shardmill("quarantine", "list", out, "--reason", "no-row", "--json").stdout
    assert len(json.loads(listed)["records"]) == 9


def test_a_replay_reads_the_source(partly_named, build, tmp_path, shardmill):
    corpus, table, missing, out = partly_named
    table.write_text("\n".join([table.read_text(), *missing]))
    done = shardmill("quarantine", "replay", out, "--labels", table)
    assert done.returncode == 0, done.stderr
    fresh = build(corpus, "fresh", labels=str(table)).manifest
    assert fresh.ledger.kept == 12 and load_manifest(out).root_hash == fresh.root_hash


def test_units_of_before_are_staged_again(partly_named, build, tmp_path, monkeypatch):
    """They have the bytes."""
    from beam_jobs.stages import list as listing

    corpus, table, _, out = partly_named
    job = {"labels": str(table), "staging": str(tmp_path / "staging")}
    with monkeypatch.context() as patch:
        patch.setattr(listing, "_LABELLED", {})
        build(corpus, "old", **job)
    report = build(corpus, "new", **job)
    assert report.build["units_reused"] == 0
    assert report.manifest.root_hash == load_manifest(out).root_hash
