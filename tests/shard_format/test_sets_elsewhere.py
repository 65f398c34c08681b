"""A whole set that is not on a local disk: everything that reads one goes through the storage."""

from __future__ import annotations

import pytest

from beam_jobs.quarantine import export, reasons, rejected_records
from beam_jobs.report.finished_set import FinishedSet, locations_of
from foundation import storage
from shard_format import (
    ShardSetError,
    load_build,
    load_manifest,
    naming,
    open_index,
    read_records,
    verify,
)
from shard_format.dropped import read_refused, refused_bytes
from shard_format.duplicates import count_duplicates


@pytest.fixture
def local(repository):
    return repository / "tests/golden/v1/set"


@pytest.fixture
def remote(local, memory):
    return memory.copy(local, "bucket/set")


def test_manifest_and_index_are_the_same(local, remote):
    assert load_manifest(remote) == load_manifest(local)
    assert load_build(remote) == load_build(local)
    name = naming.index_file("train")
    assert open_index(remote / name) == open_index(local / name)


def test_it_is_verified(local, remote, memory):
    manifest, damages = verify(remote)
    assert manifest == verify(local)[0] and damages == []
    shard = manifest.splits["train"].shards[0].file
    data = bytearray(storage.read_bytes(remote / shard))
    data[1000] ^= 1
    storage.write_bytes(remote / shard, bytes(data))
    storage.delete(remote / naming.DUPLICATES)
    storage.write_bytes(remote / "clothing-train.tfrecord-00000-of-00009", b"")
    problems = {damage.file: damage.problem for damage in verify(remote)[1]}
    assert set(problems) == {shard, *_kept(manifest), "clothing-train.tfrecord-00000-of-00009"}
    assert "record '" in problems[shard] and "at byte" in problems[shard]


def _kept(manifest):
    return {naming.DUPLICATES} & manifest.files.keys()


def test_rejected_records_are_listed_and_exported(local, remote, tmp_path):
    assert reasons(remote) == reasons(local) != []
    assert list(rejected_records(remote)) == list(rejected_records(local))
    manifest = load_manifest(remote)
    assert read_refused(remote, manifest) == read_refused(local, manifest)
    for refused in read_refused(remote, manifest):
        assert refused_bytes(remote, refused, 1 << 20) == refused_bytes(local, refused, 1 << 20)
    assert count_duplicates(remote, manifest) == count_duplicates(local, manifest)
    assert export(remote, tmp_path / "one") == export(local, tmp_path / "two")
    for path in (tmp_path / "two").rglob("*"):
        if path.is_file():
            copy = tmp_path / "one" / path.relative_to(tmp_path / "two")
            assert copy.read_bytes() == path.read_bytes()


def test_records_are_read_by_the_report(local, remote):
    def first(directory):
        finished = FinishedSet(directory)
        locations = locations_of("train", finished.index("train").slice(0, 5))
        return [(location, example["image"]) for location, example in finished.read(locations)]

    assert first(remote) == first(local)


def test_records_are_read_in_order(local, remote):
    shard = load_manifest(local).splits["test"].shards[0].file
    assert list(read_records(remote / shard)) == list(read_records(local / shard))


def test_no_set_there_is_said(memory):
    with pytest.raises(ShardSetError, match="is not a shard set: it has no manifest"):
        load_manifest(storage.Url("memory://bucket/none"))
