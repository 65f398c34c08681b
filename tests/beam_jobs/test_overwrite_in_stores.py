"""--overwrite in an object store: at every moment manifest.json names whole files of one set."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import simplejpeg

from beam_jobs import ImageOptions, preprocess
from beam_jobs.generations.compact import compact
from beam_jobs.replacement import ReplacementInStore
from foundation import storage
from shard_format import InputError, load_build, load_manifest, verify
from shard_format.removed_records import read_removed
from tests.fixtures.generations import Killed
from tests.fixtures.memory_storage import die_after

OUT = "memory://bucket/set"


@pytest.fixture
def job(tmp_path):
    """A set in the bucket, and the job of another one in its place."""
    for number in range(8):
        path = tmp_path / "corpus" / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (9, 9, 3), np.uint8)
        path.write_bytes(simplejpeg.encode_jpeg(pixels, 90))
    options = ImageOptions(
        (str(tmp_path / "corpus"),), OUT, num_shards=2, split="train=0.5,test=0.5", no_report=True
    )
    preprocess(options)
    return dataclasses.replace(options, num_shards=1, seed=3)


def test_another_set_takes_the_place(memory, job, tmp_path):
    with pytest.raises(InputError, match="Pass --overwrite to replace it"):
        preprocess(job)
    local = preprocess(dataclasses.replace(job, out=str(tmp_path / "local")))
    assert not preprocess(dataclasses.replace(job, overwrite=True)).already_built
    place = storage.Url(OUT)
    assert load_manifest(place) == local.manifest
    assert verify(place)[1] == []
    assert load_build(place)["options"]["out"] == OUT
    names = {name for name, _ in memory.list_tree(OUT)}
    assert names == {name for name, _ in storage.list_tree(tmp_path / "local")}
    assert preprocess(dataclasses.replace(job, overwrite=True)).already_built
    assert preprocess(job).already_built


def test_what_was_removed_stays_out(memory, job):
    place = storage.Url(OUT)
    compact(place, ["a/0.jpg"])
    for _ in range(2):
        done = preprocess(dataclasses.replace(job, overwrite=True))
        assert (done.manifest.ledger.kept, done.manifest.ledger.excluded) == (7, 1)
    assert done.already_built and verify(place)[1] == []
    assert read_removed(place, done.manifest).has_id("a/0.jpg")


@pytest.mark.proof
def test_there_is_a_whole_set_at_every_moment(memory, job, monkeypatch):
    """Killed at any operation of its last steps, a replacement is completed by the next one."""
    place = storage.Url(OUT)
    real = ReplacementInStore.finish
    monkeypatch.setattr(ReplacementInStore, "finish", lambda self: stop())
    with pytest.raises(Killed):
        preprocess(dataclasses.replace(job, overwrite=True))
    monkeypatch.setattr(ReplacementInStore, "finish", real)
    built, old = dict(memory.objects), load_manifest(place).root_hash
    new, seen = load_manifest(place / "generations/compacted").root_hash, set()
    for operations in range(0, 900, 3):
        memory.objects = dict(built)
        with monkeypatch.context() as patch:
            die_after(operations, memory, patch)
            try:
                ReplacementInStore(place).finish()
            except Killed:
                done = False
            else:
                done = True
        read_all(place)
        seen.add(load_manifest(place).root_hash)
        with ReplacementInStore(place).locked():
            root_hash = load_manifest(place).root_hash
            assert root_hash in (old, new)
            if root_hash == new:
                assert verify(place)[1] == []
        if done:
            break
    else:
        pytest.fail("it has more operations than that")
    assert len(seen) == 3 and {old, new} < seen


def stop():
    raise Killed


def read_all(place):
    manifest = load_manifest(place)
    for split in manifest.splits.values():
        for shard in split.shards:
            assert storage.stat(place / shard.file).size == shard.bytes
    for name, info in manifest.files.items():
        assert storage.stat(place / name).size == info["bytes"]
