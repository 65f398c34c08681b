"""Whole jobs: the same bytes however the work is cut, and what the command line says."""

from __future__ import annotations

import json

import orjson
import pytest

from shard_format import Feature, Schema, encode_example, frame


@pytest.fixture
def corpus(file, packed):
    """Some of everything, in one folder."""
    line = [orjson.dumps({"text": f"document {n} " * 40, "label": str(n % 3)}) for n in range(9000)]
    file("a.jsonl", b"\n".join(line))
    file("b.csv", b"text,label\n" + b"".join(b'"text, %d",1\n' % n for n in range(500)))
    file("c.zip", packed("zip", {"x.jsonl": b"\n".join(line[:50]), "y.csv": b"text,label\np,q\n"}))
    file("d.tar.gz", packed("tar.gz", {"x.json": b"[" + b",".join(line[:50]) + b"]"}))
    file("e/.hidden", b"x")
    return file("e/f.bin", bytes(100)).parents[1]


def test_the_same_bytes_however_it_is_cut(corpus, build_text):
    one = build_text(corpus, "one", num_shards=2, dedup="exact")
    small = build_text(corpus, "small", num_shards=2, dedup="exact", unit_size="100KiB", workers=2)
    assert small.build["units"] > one.build["units"]
    assert one.manifest.root_hash == small.manifest.root_hash
    ledger = one.manifest.ledger
    assert ledger.quarantined == ledger.reasons["unknown-format"] == 1
    assert ledger.read == 9000 + 500 + 51 + 50 + 1
    assert one.ignored == 1


def test_the_command_line(corpus, shardmill, tmp_path):
    job = ("--no-report", "--json", "--workers", 1, "--clean", "none")
    done = shardmill("preprocess", "text", corpus, "--out", tmp_path / "set", *job)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["read"] == 9602 and summary["quarantined"] == 1
    wrong = shardmill(
        "preprocess", "text", corpus, "--out", tmp_path / "x", "--encoding", "klingon"
    )
    assert wrong.returncode == 2 and "--encoding must be one that Python knows" in wrong.stderr
    wrong = shardmill(
        "preprocess", "text", corpus, "--out", tmp_path / "x", "--text-column", "body"
    )
    assert wrong.returncode == 3 and "Use --text-column text" in wrong.stderr
    assert not (tmp_path / "x").exists()


def test_a_shard_set_is_a_source(file, build_text, documents, tmp_path):
    root = file("pos/1.txt", "good").parents[1]
    file("neg/2.txt", "bad")
    build_text(root, split="train=1")
    read = documents(tmp_path / "set")
    assert sorted((one.text, one.label) for one in read.documents.values()) == [
        ("bad", "neg"),
        ("good", "pos"),
    ]
    assert not read.rejects


def test_class_names_next_to_tfrecord_files(file, documents):
    schema = Schema("text", (Feature("text", "text"), Feature("label", "int64")))
    file("label.labels.txt", "neg\npos\n")
    file("dataset_info.json", "{}")
    path = file(
        "a.tfrecord-00000-of-00001", frame(encode_example(schema, {"text": "x", "label": 1}))
    )
    read = documents(path.parent, format="tfrecord")
    assert list(read.labels.values()) == ["pos"] and not read.rejects
    assert len(read.ignored) == 2
