"""`shardmill audit` as a person types it."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from shard_format import load_manifest
from tests.fixtures.command_line import run_shardmill


@pytest.fixture
def clothing(samples, build, tmp_path):
    build(samples, "set", dedup="off", split="train=0.6,test=0.4")
    return tmp_path / "set"


def test_what_it_prints_and_writes(clothing, shardmill, tmp_path):
    done = shardmill("audit", clothing, "--threshold", "dark=0.6")
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if "/" not in line)
    rows = {line.split()[0]: line.split()[1:3] for line in done.stdout.splitlines() if line.strip()}
    assert rows["dark"][0] == "0.6" and int(rows["dark"][1]) > 0
    assert "pass --run RUN" in done.stdout
    assert sorted(path.name for path in (tmp_path / "set-audit").iterdir()) == [
        "audit.html",
        "audit.parquet",
        "ids",
    ]
    assert shardmill("verify", clothing).returncode == 0


def test_a_list_that_compact_takes(clothing, shardmill, tmp_path):
    out = tmp_path / "look"
    done = shardmill("audit", clothing, "--out", out, "--threshold", "dark=0.6", "--json")
    said = json.loads(done.stdout)
    assert said["findings"]["dark"] == load_manifest(clothing).ledger.kept - _left(
        shardmill, clothing, said["lists"]["dark"]
    )
    rows = pq.read_table(said["table"]).to_pylist()
    assert said["findings"]["dark"] == sum(row["finding"] == "dark" for row in rows)
    again = json.loads(
        shardmill("audit", clothing, "--out", out, "--threshold", "dark=0.6", "--json").stdout
    )
    assert again["findings"]["dark"] == 0 and "dark" not in again["lists"]


def _left(shardmill, directory, ids):
    done = shardmill("compact", directory, "--remove", ids)
    assert done.returncode == 0, done.stderr
    return load_manifest(directory).ledger.kept


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--threshold", "dark"), "is no name with a number"),
        (("--threshold", "dark=nan"), "is no name with a number"),
        (("--threshold", "darc=1"), "Did you mean 'dark'?"),
        (("--out", "set/audit"), "overlap. Write it elsewhere."),
        (("--run", "nowhere"), "No run of 'shardmill train' in"),
    ],
)
def test_wrong_usage(clothing, tmp_path, words, message):
    done = run_shardmill(tmp_path, "audit", "set", *words)
    assert done.returncode == 2 and message in done.stderr
    assert not (tmp_path / "set-audit").exists()
