"""What `shardmill inspect` tells of text sets."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pyarrow as pa
import pytest

from shard_format import IndexWriter, load_manifest, naming, open_index

VOCABULARY = {"size": 32000, "used": 3100, "coverage": 0.096875, "unknown": 0.0}
PACKING = {"sequences": 7, "padding_share": 0.125, "documents": 90, "cut_share": 0.5}


@pytest.fixture(scope="module")
def text_set(tmp_path_factory, repository):
    """A set of 40 documents, with a language for each of the training split."""
    folder = tmp_path_factory.mktemp("inspect")
    rows = [{"text": f"document {n} has {'words ' * n}", "label": "ab"[n % 2]} for n in range(40)]
    (folder / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    out = folder / "set"
    subprocess.run(
        [sys.executable, "-m", "cli.main", "preprocess", "text", str(folder / "corpus.jsonl")]
        + ["--out", str(out), "--label-column", "label", "--clean", "none", "--json"],
        capture_output=True,
        check=True,
        cwd=repository,
        timeout=120,
    )
    path = out / naming.index_file("train")
    index = open_index(path).combine_chunks()
    codes = ["de" if row % 4 == 0 else "en\x1b[31m" for row in range(len(index))]
    index = index.append_column("language", pa.array([None, *codes[1:]], pa.string()))
    with IndexWriter(folder / "index", list(index.schema)[7:]) as writer:
        writer.append(index)
    (folder / "index").replace(path)  # not written over: its columns lie in a memory map
    manifest = load_manifest(out)
    train = manifest.splits["train"]
    statistics = {**train.statistics, "vocabulary": VOCABULARY, "packing": PACKING}
    splits = {**manifest.splits, "train": dataclasses.replace(train, statistics=statistics)}
    steps = [{"step": "nfc"}, {"step": "length", "min_chars": 1, "only": "en"}]
    config = {**manifest.config, "clean": steps}
    changed = dataclasses.replace(manifest, splits=splits, config=config)
    (out / naming.MANIFEST).write_text(changed.to_text())
    return out


def test_lengths_languages_vocabulary_and_packing(text_set, shardmill):
    done = shardmill("inspect", text_set, "--all", env={"COLUMNS": "80", "PATH": ""})
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    train = load_manifest(text_set).splits["train"]
    assert any(line[:1] == ["chars"] and len(line) == 4 for line in lines)
    assert ["size", "32,000"] in lines and ["coverage", "9.69%"] in lines
    assert ["padding", "share", "12.50%"] in lines
    assert ["language", "train"] in lines and ["source", "encoding", "train", "test"] in lines
    assert ["unknown", "1"] in lines
    assert ["nfc"] in lines and ["length", "min_chars=1,", 'only="en"'] in lines
    assert ["utf-8", str(train.records), str(40 - train.records)] in lines
    assert r"en\x1b[31m" in done.stdout and "\x1b" not in done.stdout


def test_the_same_as_json(text_set, shardmill):
    shown = json.loads(shardmill("inspect", text_set, "--json").stdout.splitlines()[-1])
    records = shown["splits"]["train"]["records"]
    languages = shown["languages"]["train"]
    assert sum(languages.values()) == records and languages["unknown"] == 1
    assert shown["source_encodings"] == {
        "train": {"utf-8": records},
        "test": {"utf-8": 40 - records},
    }
    assert shown["statistics"]["train"]["packing"] == PACKING
    assert shown["statistics"]["train"]["vocabulary"] == VOCABULARY


def test_no_more_than_the_manifest_is_needed(text_set, shardmill, tmp_path):
    (tmp_path / naming.MANIFEST).write_bytes((text_set / naming.MANIFEST).read_bytes())
    done = shardmill("inspect", tmp_path, "--all")
    assert done.returncode == 0
    assert f"The index {tmp_path / naming.index_file('train')}" in done.stdout.replace("\n", "")
    assert "is missing" in done.stdout and "padding share" in done.stdout
    shown = json.loads(shardmill("inspect", tmp_path, "--json").stdout.splitlines()[-1])
    assert shown["languages"] is None and shown["source_encodings"] is None


def test_other_sets_say_nothing_of_text(shardmill, repository):
    done = shardmill("inspect", repository / "tests/golden/v1/set", "--json")
    assert "languages" not in json.loads(done.stdout.splitlines()[-1])
