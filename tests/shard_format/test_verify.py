"""P9: damage is found, and has an address."""

from __future__ import annotations

import random

import pytest

from shard_format import DamageError, load_build, open_index, verify


@pytest.fixture
def shard_set(kind, build, tmp_path):
    corpus = kind.make(24)
    one = (corpus / "class0" / kind.file("000")).read_bytes()
    (corpus / "class0" / kind.file("broken")).write_bytes(kind.damaged(one))
    build(corpus, num_shards=2)
    return tmp_path / "set"


def test_an_intact_set_has_no_damage(shard_set):
    blocks = []
    manifest, damages = verify(shard_set, on_bytes=blocks.append)
    assert damages == []
    shards = sum(split.bytes for split in manifest.splits.values())
    others = [*manifest.files.values(), *load_build(shard_set)["fingerprints"].values()]
    assert sum(blocks) == shards + sum(info["bytes"] for info in others)


def test_any_flipped_bit_in_any_file_is_found(shard_set):
    files = [path for path in shard_set.rglob("*") if path.is_file() and path.name != "build.json"]
    chosen = random.Random(0)
    for _ in range(150):
        path = chosen.choice(files)
        intact = path.read_bytes()
        damaged = bytearray(intact)
        position = chosen.randrange(len(damaged))
        damaged[position] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        name = path.relative_to(shard_set).as_posix()
        if name == "manifest.json":
            with pytest.raises((DamageError, Exception)) as error:
                verify(shard_set)
            assert "manifest" in str(error.value) or "format" in str(error.value)
        else:
            assert [damage.file for damage in verify(shard_set)[1]] == [name]
        path.write_bytes(intact)


def test_a_damaged_record_is_named(shard_set):
    rows = open_index(shard_set / "index" / "train.arrow").to_pylist()
    row = rows[5]
    manifest, _ = verify(shard_set)
    path = shard_set / manifest.splits["train"].shards[row["shard"]].file
    data = bytearray(path.read_bytes())
    data[row["offset"] + 100] ^= 1
    path.write_bytes(data)
    (damage,) = verify(shard_set)[1]
    assert damage.file == path.name
    assert repr(row["record_id"]) in damage.problem
    assert f"at byte {row['offset']}" in damage.problem


def test_truncated_missing_and_swapped_shards(shard_set):
    first, second = sorted(shard_set.glob("*train*"))
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(one[:-3])
    assert "bytes" in verify(shard_set)[1][0].problem
    first.unlink()
    assert verify(shard_set)[1][0].problem == "is missing"
    first.write_bytes(two)
    second.write_bytes(one)
    assert [damage.file for damage in verify(shard_set)[1]] == [first.name, second.name]


def test_a_shard_that_does_not_belong_is_found(shard_set):
    (shard_set / "images-train.tfrecord-00000-of-00009").write_bytes(b"")
    (damage,) = verify(shard_set)[1]
    assert damage.problem == "is not part of the set"


@pytest.mark.timeout(30)
def test_a_pipe_in_place_of_a_shard_does_not_block(shard_set):
    import os

    shard = next(shard_set.glob("*train*"))
    shard.unlink()
    os.mkfifo(shard)
    assert verify(shard_set)[1][0].problem == "is not a regular file"
