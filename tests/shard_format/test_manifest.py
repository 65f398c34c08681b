from __future__ import annotations

import dataclasses
import json
import pickle
import re

import pytest

from shard_format import (
    DamageError,
    Feature,
    Generation,
    Ledger,
    Manifest,
    Schema,
    ShardInfo,
    ShardSetError,
    SplitInfo,
    UsageError,
    file_info,
    load_manifest,
    naming,
)
from shard_format.manifest import IndexPart, root_hash_of
from shard_format.naming import parse_shard_file, shard_file
from shard_format.shard_list import write_shard_list

MANIFEST = Manifest(
    name="t",
    schema=Schema("image", (Feature("label", "class_label", class_names=("a", "é"), late=True),)),
    splits={"train": SplitInfo((ShardInfo("t-train.tfrecord-00000-of-00001", 2, 9, "00"),), {})},
    ledger=Ledger(5, 2, 1, 0, 2, {"corrupt": 2}),
    config={"seed": 0},
    files={},
)
SHARD = ShardInfo("t-train.tfrecord-00000-of-00001", 2, 9, "0" * 64)
WHOLE = dataclasses.replace(MANIFEST, splits={"train": SplitInfo((SHARD,), {})})


def test_a_manifest_comes_back(tmp_path):
    (tmp_path / naming.MANIFEST).write_text(WHOLE.to_text(), encoding="utf-8")
    assert load_manifest(tmp_path) == WHOLE


def test_the_root_hash_is_golden():
    """Other tools compute it from FORMAT.md; it must never change within format version 1."""
    assert MANIFEST.root_hash == GOLDEN


GOLDEN = "cc5100628e093cbb615c0c2c15b0f2fe675491f5e538a687d53504ebbbf9eea7"


def test_any_edit_is_found(tmp_path):
    raw = json.loads(MANIFEST.to_text())
    raw["ledger"]["kept"], raw["ledger"]["duplicates"] = 1, 2
    (tmp_path / naming.MANIFEST).write_text(json.dumps(raw))
    with pytest.raises(DamageError, match="root hash"):
        load_manifest(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"format_version": 99}'])
def test_what_is_no_manifest_is_refused(tmp_path, text):
    (tmp_path / naming.MANIFEST).write_text(text)
    with pytest.raises((DamageError, ShardSetError), match=r"manifest\.json"):
        load_manifest(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/x", "a/../../x", "..", ".", "", "a\0b", "./x", "a//b", "a/", "..\\x", "C:\\x"]
    + ["c:x", "s3://b/x", "a\nb", "a" * 256, "/".join(["a"] * 600), "\ud800", ".shardmill/x"],
)
def test_no_file_outside_of_a_set_is_named(tmp_path, name):
    """A set at a URL is anybody's, and its files are copied under the names that it gives."""
    shard = SplitInfo((dataclasses.replace(SHARD, file=name),), {})
    manifests = [
        dataclasses.replace(WHOLE, splits={"train": shard}),
        dataclasses.replace(WHOLE, files={name: {"bytes": 1, "sha256": "0" * 64}}),
        dataclasses.replace(WHOLE, splits={name: WHOLE.splits["train"]}),
        dataclasses.replace(WHOLE, name=name),
    ]
    if "/" in name:  # the file of its classes is in the set, whatever the name, without a folder
        label = dataclasses.replace(WHOLE.schema.features[0], name=f"../{name}")
        manifests.append(dataclasses.replace(WHOLE, schema=Schema("image", (label,))))
    for manifest in manifests:
        try:
            text = manifest.to_text()
        except UnicodeEncodeError:
            continue  # there can be no root hash of it
        (tmp_path / naming.MANIFEST).write_text(text, encoding="utf-8")
        with pytest.raises(
            DamageError, match=r"a file outside of its set|cannot be part of a file"
        ):
            load_manifest(tmp_path)


TWO = (
    Generation("", "0" * 64, "1" * 64),
    Generation("generations/0001", "2" * 64, ""),
)


@pytest.mark.parametrize(
    ("generations", "home", "message"),
    [
        ((TWO[0], dataclasses.replace(TWO[1], folder="../set/generations/0001")), "", "0001'"),
        ((TWO[0], dataclasses.replace(TWO[1], folder="/etc")), "", "folder '/etc', not 'gen"),
        ((TWO[0], dataclasses.replace(TWO[1], folder="")), "", "the folder '', not 'gen"),
        ((TWO[1], TWO[1]), "", "folder 'generations/0001', not ''"),
        (TWO, "", "the folder '', not 'generations/0001/view'"),
        (TWO, "..", "the folder '..', not"),
        (TWO[:1], "", "the folder '', not 'generations/compacted'"),
        (TWO, "generations/0001/view", ""),
        ((Generation("generations/compacted", "0" * 64, ""),), "generations/compacted", ""),
    ],
)
def test_generations_are_in_their_folders_alone(tmp_path, generations, home, message):
    manifest = dataclasses.replace(WHOLE, generations=generations, home=home)
    (tmp_path / naming.MANIFEST).write_text(manifest.to_text(), encoding="utf-8")
    if message:
        with pytest.raises(DamageError, match=re.escape(message)):
            load_manifest(tmp_path)
    else:
        assert load_manifest(tmp_path) == manifest


@pytest.mark.parametrize("wrong", ["", "00", "../../x", "A" * 64, "0" * 63 + "/"])
def test_checksums_are_hexadecimal(tmp_path, wrong):
    """A repair names the files that it has ready by them."""
    shard = SplitInfo((dataclasses.replace(SHARD, sha256=wrong),), {})
    for manifest in (
        dataclasses.replace(WHOLE, splits={"train": shard}),
        dataclasses.replace(WHOLE, files={"x": {"bytes": 1, "sha256": wrong}}),
    ):
        (tmp_path / naming.MANIFEST).write_text(manifest.to_text(), encoding="utf-8")
        with pytest.raises(DamageError, match=r"sha256 is .*, not a SHA-256"):
            load_manifest(tmp_path)


@pytest.mark.parametrize(("version", "generations"), [(1, TWO), (2, ())])
def test_a_version_says_whether_there_are_generations(tmp_path, version, generations):
    manifest = dataclasses.replace(WHOLE, generations=generations, home="generations/0001/view")
    raw = json.loads(manifest.to_text()) | {"format_version": version}
    del raw["root_hash"]
    text = json.dumps({**raw, "root_hash": root_hash_of(raw)})
    (tmp_path / naming.MANIFEST).write_text(text)
    with pytest.raises(DamageError, match=f"format version {version} and {len(generations)} gener"):
        load_manifest(tmp_path)


def test_a_missing_set_is_reported_apart_from_an_unfinished_one(tmp_path):
    with pytest.raises(ShardSetError, match="no directory"):
        load_manifest(tmp_path / "none")
    with pytest.raises(ShardSetError, match="Build one with"):
        load_manifest(tmp_path)
    (tmp_path / naming.WORK_DIR).mkdir()
    with pytest.raises(ShardSetError, match="unfinished build"):
        load_manifest(tmp_path)


def test_a_ledger_adds_up():
    with pytest.raises(DamageError, match=r"5 != 2 \+ 1 \+ 0 \+ 1"):
        Ledger(5, 2, 1, 0, 1, {})


def test_shard_names_have_an_inverse():
    name = shard_file("images", "train", 7, 100_000)
    assert name == "images-train.tfrecord-00007-of-100000"
    assert parse_shard_file(name) == ("images", "train", 7, 100_000)
    assert parse_shard_file("images-train.tfrecord") is None


@pytest.mark.parametrize("name", ["", "Train", "9x", "a-b", "a/b", "é"])
def test_names_that_tfds_cannot_read_are_refused(name):
    with pytest.raises(UsageError, match="lower-case"):
        naming.check_name(name, "--name")


def test_schemas_are_checked_at_birth():
    with pytest.raises(UsageError, match="not unique"):
        Schema("t", (Feature("a", "text"), Feature("a", "text")))
    with pytest.raises(UsageError, match="Late features"):
        Schema("t", (Feature("a", "text", late=True), Feature("b", "text")))
    with pytest.raises(UsageError, match="unknown kind"):
        Feature("a", "video")


def test_the_root_hash_of_a_set_in_parts_is_golden(tmp_path):
    """It and the bytes of the list of shards must never change within format version 3."""
    shards = [SHARD, dataclasses.replace(SHARD, file="t-train.tfrecord-00001-of-00002", records=3)]
    (tmp_path / naming.INDEX_DIR).mkdir()
    place = tmp_path / naming.shards_file("train")
    write_shard_list(place, shards)
    parts = [IndexPart(naming.index_part_file("train", number), 1) for number in range(2)]
    files = {part.file: {"bytes": 1, "sha256": "1" * 64} for part in parts}
    manifest = dataclasses.replace(
        MANIFEST,
        splits={"train": SplitInfo(shards, {}, tuple(parts))},
        files=files | {naming.shards_file("train"): file_info(place)},
    )
    (tmp_path / naming.MANIFEST).write_text(manifest.to_text(), encoding="utf-8")
    loaded = load_manifest(tmp_path)
    assert loaded.root_hash == manifest.root_hash == GOLDEN_PARTS
    assert list(loaded.splits["train"].shards) == shards
    assert [shard.records for shard in loaded.splits["train"].shards[1:]] == [3]
    assert loaded.splits["train"].shards[-1] == shards[-1]
    assert pickle.loads(pickle.dumps(loaded)) == loaded


GOLDEN_PARTS = "043170b2d6ff695642d22b5f08ffb57ee4eea9df19e0b024a62ba2228f6c8673"
