"""The files of a set are counted, chosen and looked at without an object for each of them."""

from __future__ import annotations

import dataclasses
import hashlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_format import (
    Feature,
    Schema,
    ShardInfo,
    file_info,
    load_manifest,
    naming,
    verification,
    verify,
)
from shard_format.expected_files import ChosenFiles, Expected, ExpectedFiles
from shard_format.shard_list import ShardList, write_shard_list
from tests.fixtures.sets import write_shard_set

SCHEMA = Schema("text", (Feature("text", "text"),))


def make_manifest(root, sizes, *, listed):
    """A manifest whose shards have these sizes; there are no such files."""
    manifest = write_shard_set(root, SCHEMA, {"train": [], "test": []})
    splits = {}
    for name, own in zip(manifest.splits, (sizes, sizes[:2]), strict=True):
        shards = [
            ShardInfo(naming.shard_file("tiny", name, at, len(own)), at, size, f"{at:064x}")
            for at, size in enumerate(own)
        ]
        if listed:
            place = root / naming.shards_file(name)
            write_shard_list(place, shards)
            numbers = (len(own), sum(range(len(own))), sum(own))
            shards = ShardList(place, *numbers, file_info(place)["sha256"])
        splits[name] = dataclasses.replace(manifest.splits[name], shards=shards)
    return dataclasses.replace(manifest, splits=splits)


@given(
    st.lists(st.integers(0, 100), max_size=12),
    st.booleans(),
    st.floats(0, 1) | st.sampled_from([0.0, 1.0]),
    st.integers(0, 3),
)
def test_files_are_those_of_the_manifest(tmp_path_factory, sizes, listed, share, seed):
    root = tmp_path_factory.getbasetemp() / uuid.uuid4().hex
    manifest = make_manifest(root, sizes, listed=listed)
    others = [Expected("fingerprints/items.arrow", 7, "ab")]
    expected = ExpectedFiles(manifest, others)
    files = [
        Expected(shard.file, shard.bytes, shard.sha256, name, number)
        for name, split in manifest.splits.items()
        for number, shard in enumerate(split.shards)
    ]
    assert expected.num_shards == len(files)
    files += [Expected(file, **info) for file, info in manifest.files.items()] + others
    assert list(expected) == [expected[at] for at in range(len(expected))] == files
    assert expected.sizes.tolist() == [one.bytes for one in files]

    def rank(one):
        return hashlib.sha256(f"{seed}/{one.file}".encode()).digest()

    wanted, chosen = share * sum(one.bytes for one in files), []
    for one in files if share == 1 else sorted(files, key=rank):
        if share == 1 or wanted > 0:
            chosen.append(one)
            wanted -= one.bytes
    some = ChosenFiles(expected, share, seed)
    assert {one.file for one in files if one.file in some} == {one.file for one in chosen}
    assert (some.files, some.bytes) == (len(chosen), sum(one.bytes for one in chosen))


def test_some_files_are_looked_at_ahead(tmp_path, monkeypatch):
    records = [[({"text": "a"}, {"key": n})] for n in range(40)]
    write_shard_set(tmp_path / "set", SCHEMA, {"train": records})
    asked, checked, ahead = [], [], []
    get, file = ExpectedFiles.__getitem__, verification._Check.file

    def asking(self, place):
        asked.append(place)
        ahead.append(len(asked) - len(checked))
        return get(self, place)

    def checking(self, one, *, read):
        damage = file(self, one, read=read)
        checked.append(one)
        return damage

    monkeypatch.setattr(ExpectedFiles, "__getitem__", asking)
    monkeypatch.setattr(verification._Check, "file", checking)
    verify(tmp_path / "set", workers=2)
    assert len(checked) == len(asked) == 41 and max(ahead) <= 5


@pytest.mark.parametrize("name", ["tiny-train.tfrecord-00003-of-00040", "index/train.arrow"])
def test_content_of_another_file_is_named(tmp_path, name):
    records = [[({"text": f"{n}"}, {"key": n})] for n in range(40)]
    root = tmp_path / "set"
    write_shard_set(root, SCHEMA, {"train": records})
    other = load_manifest(root).splits["train"].shards[7].file
    (root / name).write_bytes((root / other).read_bytes())
    damages = [one for one in verify(root)[1] if one.file == name]
    assert [one.same_as for one in damages] == [other]
