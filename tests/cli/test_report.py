"""`shardmill report`, and what `shardmill inspect` tells beyond the manifest."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shard_format import Ledger, file_sha256, load_manifest, naming


@pytest.fixture(scope="module")
def built(tmp_path_factory, repository, samples):
    """A set that was built from the sample photographs."""
    out = tmp_path_factory.mktemp("report") / "set"
    subprocess.run(
        [sys.executable, "-m", "cli.main", "preprocess", "images", str(samples), "--out", str(out)]
        + ["--resize", "shorter:48", "--num-shards", "2", "--json"],
        capture_output=True,
        check=True,
        cwd=repository,
        timeout=120,
    )
    return out


@pytest.fixture
def rich(built, tmp_path):
    """A copy with channel statistics, class weights, duplicates and a hostile quarantine."""
    out = tmp_path / "set"
    shutil.copytree(built, out)
    rows = [
        {"record_id": f"{kept}-{number}", "kept_id": kept, "kind": "exact", "dropped": True}
        | {"conflict": number == 1}
        for kept in ("a", "b")
        for number in range(3)
    ]
    pq.write_table(pa.Table.from_pylist(rows), out / naming.DUPLICATES)
    name = naming.quarantine_file(0)
    table = pq.read_table(out / name)
    texts = {"record_id": "x/\x1b[31mred", "detail": "it is long, " * 30, "label": None}
    texts |= {"stage": "read", "reason": "odd\x07", "bytes": b""}
    extra = pa.Table.from_pylist([texts], table.schema)
    pq.write_table(pa.concat_tables([table, extra]), out / name)
    manifest = load_manifest(out)
    files = dict(manifest.files)
    for file in (naming.DUPLICATES, name):
        files[file] = {"bytes": (out / file).stat().st_size, "sha256": file_sha256(out / file)}
    train = manifest.splits["train"]
    statistics = {
        **train.statistics,
        "pixels": {"mean": [200.5, 190.25, 180], "std": [60, 55.5, 50], "min": [0] * 3}
        | {"max": [255] * 3, "count": 99},
        "class_weights": {"hat": 1.5},
    }
    ledger = manifest.ledger
    counts = {**ledger.reasons, "odd\x07": 1}
    changed = dataclasses.replace(
        manifest,
        files=files,
        splits={**manifest.splits, "train": dataclasses.replace(train, statistics=statistics)},
        ledger=Ledger(ledger.read + 1, ledger.kept, ledger.duplicates, 0, 3, counts),
    )
    (out / naming.MANIFEST).write_text(changed.to_text())
    return out


def test_report_says_where_the_page_is(built, shardmill, tmp_path):
    done = shardmill("report", built)
    assert done.returncode == 0, done.stderr
    assert str(built / "report.html") in done.stdout and "browser" in done.stdout
    page = (built / "report.html").read_bytes()
    out = tmp_path / "elsewhere.html"
    shown = json.loads(shardmill("report", built, "--out", out, "--json").stdout.splitlines()[-1])
    assert shown == {"report": str(out), "bytes": len(page)}
    assert out.read_bytes() == page
    assert shardmill("verify", built).returncode == 0


def test_report_of_a_damaged_set(rich, shardmill):
    for shard in rich.glob("*train*"):
        data = bytearray(shard.read_bytes())
        for position in range(50, len(data), 500):
            data[position] ^= 8
        shard.write_bytes(data)
    done = shardmill("report", rich)
    assert done.returncode == 4
    assert "checksum" in done.stderr and "Traceback" not in done.stderr


def test_inspect_tells_the_essentials(rich, shardmill):
    done = shardmill("inspect", rich, "--all", env={"COLUMNS": "80", "PATH": ""})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split() == ["red", "200.50", "60.00", "0.7863", "0.2353"] for line in lines)
    assert any(line.split()[:1] == ["hat"] and line.split()[-1] == "1.5" for line in lines)
    for text in (
        "2 clusters (6 exact and 0 near copies), 2 with conflicting labels",
        "not-found.jpg",
    ):
        assert text in done.stdout
    assert r"x/\x1b[31mred" in done.stdout and "\x1b" not in done.stdout
    assert r"odd\x07" in done.stdout and "\x07" not in done.stdout


def test_inspect_tells_the_same_as_json(rich, shardmill):
    shown = json.loads(shardmill("inspect", rich, "--json").stdout.splitlines()[-1])
    assert shown["duplicate_clusters"] == {
        "clusters": 2,
        "exact": 6,
        "near": 0,
        "conflicts": 2,
        "dropped": 6,
        "others": 0,
    }
    reasons = {item["reason"]: item for item in shown["quarantine"]}
    assert {reason: item["records"] for reason, item in reasons.items()} == shown["reasons"]
    assert reasons["not-an-image"]["example"]["record_id"] == "pants/not-found.jpg"
    assert shown["statistics"]["train"]["pixels"]["count"] == 99


def test_inspect_needs_no_more_than_the_manifest(built, shardmill, tmp_path):
    shutil.copy(built / naming.MANIFEST, tmp_path)
    done = shardmill("inspect", tmp_path, "--all")
    assert done.returncode == 0
    assert "t-shirt" in done.stdout and "shardmill verify" in done.stdout
    shown = json.loads(shardmill("inspect", tmp_path, "--json").stdout.splitlines()[-1])
    assert shown["quarantine"] is None and shown["read"] == 324
