from __future__ import annotations

import dataclasses
import json

import pytest

from shard_format import (
    DamageError,
    Feature,
    Ledger,
    Manifest,
    Schema,
    ShardInfo,
    ShardSetError,
    SplitInfo,
    UsageError,
    load_manifest,
    naming,
)
from shard_format.naming import parse_shard_file, shard_file

MANIFEST = Manifest(
    name="t",
    schema=Schema("image", (Feature("label", "class_label", class_names=("a", "é"), late=True),)),
    splits={"train": SplitInfo((ShardInfo("t-train.tfrecord-00000-of-00001", 2, 9, "00"),), {})},
    ledger=Ledger(5, 2, 1, 0, 2, {"corrupt": 2}),
    config={"seed": 0},
    files={},
)


def test_a_manifest_comes_back(tmp_path):
    (tmp_path / naming.MANIFEST).write_text(MANIFEST.to_text(), encoding="utf-8")
    assert load_manifest(tmp_path) == MANIFEST


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


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "..", "", "a\0b", "./x"])
def test_no_file_outside_of_a_set_is_named(tmp_path, name):
    """A set at a URL is anybody's, and its files are copied under the names that it gives."""
    shard = SplitInfo((ShardInfo(name, 2, 9, "00"),), {})
    manifests = [
        dataclasses.replace(MANIFEST, splits={"train": shard}),
        dataclasses.replace(MANIFEST, files={name: {"bytes": 1, "sha256": "00"}}),
    ]
    if "../" in name:
        manifests.append(dataclasses.replace(MANIFEST, splits={name: MANIFEST.splits["train"]}))
    for manifest in manifests:
        (tmp_path / naming.MANIFEST).write_text(manifest.to_text(), encoding="utf-8")
        with pytest.raises(DamageError, match="a file outside of its set"):
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
