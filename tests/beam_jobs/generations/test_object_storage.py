"""Generations of a set in an object store: the bytes of a local one."""

from __future__ import annotations

import dataclasses

import pytest

from beam_jobs import ImageOptions, append, bounds, preprocess, workspace
from beam_jobs.generations.compact import compact
from foundation import storage
from shard_format import index_parts, load_manifest, naming, verify

OUT = "memory://bucket/set"
OPTIONS = {"split": "train=0.5,test=0.5", "no_report": True, "num_shards": 2}


@pytest.fixture
def pieces(write_corpus):
    old = write_corpus("old", {f"{'ab'[n % 2]}/old{n}": n for n in range(10)})
    return old, write_corpus("new", {"a/new": 100, "b/copy": 3, "c/more": 101})


@pytest.mark.parametrize("is_large", [False, True])
def test_a_set_in_a_bucket(memory, pieces, begin_set, append_to, tmp_path, monkeypatch, is_large):
    """A large set has its indexes in parts, and its files are not read at once."""
    if is_large:
        monkeypatch.setattr(index_parts, "PART_ROWS", 3)
        monkeypatch.setattr(bounds, "MERGED_ROWS", 2)
        monkeypatch.setattr(workspace, "_HELD_BYTES", 64)
    old, new = pieces
    begin_set(old, **{name: value for name, value in OPTIONS.items() if name != "no_report"})
    local = append_to(new, split=OPTIONS["split"])
    job = ImageOptions((str(old),), OUT, **OPTIONS)
    preprocess(job)
    appended = append(dataclasses.replace(job, sources=(str(new),), append=True), given=())
    assert appended.manifest.root_hash == local.manifest.root_hash
    place = storage.Url(OUT)
    assert verify(place)[1] == [] and bool(appended.manifest.splits["train"].index) == is_large
    assert load_manifest(place, 0).ledger.kept == 10

    merged = compact(place, ["a/old2.jpg"])
    assert merged.manifest.root_hash == compact(tmp_path / "set", ["a/old2.jpg"]).manifest.root_hash
    names = {name for name, _ in memory.list_tree(OUT)}
    assert not [name for name in names if name.startswith((naming.GENERATIONS_DIR, ".shardmill"))]
    assert verify(place)[1] == []
