"""A set whose index is in parts is built, verified, appended to, compacted and repaired as others.

The number of rows of a part is lowered, so that a set of some records is a large one.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_jobs import bounds, publishing
from beam_jobs.generations.append import append
from beam_jobs.generations.compact import compact
from beam_jobs.repair import repair
from beam_jobs.run import preprocess
from beam_jobs.stages.plan import merge_levels
from beam_jobs.staging.stored import StoredRecords
from foundation import storage
from shard_format import (
    DamageError,
    ShardSetError,
    file_sha256,
    index_parts,
    load_manifest,
    naming,
    open_split_index,
    verify,
    verify_set,
)
from shard_format.shard_list import ShardList, write_shard_list
from tests.beam_jobs.stages.merge.builds import FORCED, forced_levels
from tests.fixtures.damage import job, make_corpus

PART_ROWS = 12
PARTS = [naming.index_part_file("train", number) for number in range(8)]


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(index_parts, "PART_ROWS", PART_ROWS)


def options(folder: Path, kind: str = "image", source: str = "corpus", **values: Any) -> Any:
    if not (folder / source).exists():
        make_corpus(kind, folder / source, records=60 if source == "corpus" else 90)
    prefix = None if source == "corpus" else source
    values = {"num_shards": 16, "split": "train=0.9,test=0.1", "id_prefix": prefix} | values
    return job(kind, folder / source, values.pop("out", folder / "set"), **values)


def rows(root: Path, split: str = "train") -> list[dict[str, Any]]:
    return open_split_index(root, load_manifest(root), split).to_pylist()


def build(folder: Path, kind: str = "image", **values: Any) -> Path:
    preprocess(options(folder, kind, **values))
    return folder / "set"


@pytest.fixture
def large(tmp_path, small_parts):
    return build(tmp_path)


def test_a_part_has_whole_shards(monkeypatch):
    monkeypatch.setattr(index_parts, "PART_ROWS", 10)
    for records, parts in {
        (): [range(0)],
        (10,): [range(1)],
        (11,): [range(1)],
        (5, 5): [range(2)],
        (5, 6): [range(1), range(1, 2)],
        (20, 1, 9, 1): [range(1), range(1, 3), range(3, 4)],
    }.items():
        assert index_parts.plan_parts(records) == parts


@pytest.mark.parametrize("kind", ["image", "text"])
def test_a_large_set_has_the_records_of_a_small_one(tmp_path, kind, monkeypatch):
    small = build(tmp_path / "small", kind)
    monkeypatch.setattr(index_parts, "PART_ROWS", PART_ROWS)
    large = build(tmp_path / "large", kind)
    before, after = load_manifest(small), load_manifest(large)
    assert (before.format_version, after.format_version) == (1, 3)
    assert len(after.splits["train"].index) >= 5 and not after.splits["test"].index
    for split, info in before.splits.items():
        assert rows(small, split) == rows(large, split)
        assert after.splits[split].statistics == info.statistics
        assert list(after.splits[split].shards) == list(info.shards)
        assert (after.splits[split].records, after.splits[split].bytes) == (
            info.records,
            info.bytes,
        )
    assert (small / naming.DATASET_INFO).read_bytes() == (large / naming.DATASET_INFO).read_bytes()
    tables = naming.table_files("train", len(after.splits["train"].index))
    assert not (large / naming.table_files("train")[0]).exists()
    assert pa.concat_tables(pq.read_table(large / file) for file in tables) == pq.read_table(
        small / naming.table_files("train")[0]
    )
    assert verify(large)[1] == []


def test_croissant_names_lists_and_patterns(large):
    """Not the shards one by one: there may be millions."""
    manifest = load_manifest(large)
    text = (large / naming.CROISSANT).read_text()
    described = json.loads(text)
    assert not any(shard.sha256 in text for shard in manifest.splits["train"].shards)
    assert all(shard.sha256 in text for shard in manifest.splits["test"].shards)
    sets = {one["@id"]: one["includes"] for one in described["distribution"] if "includes" in one}
    assert {name: sorted(one.name for one in large.glob(sets[name])) for name in sets} == {
        "train-shards": [shard.file for shard in manifest.splits["train"].shards],
        "train-tables": [Path(file).name for file in naming.table_files("train", 5)],
    }


@pytest.mark.parametrize("file", [naming.CROISSANT, naming.table_files("train", 5)[3]])
def test_a_lost_table_is_reported_and_repaired(large, file):
    before = (large / file).read_bytes()
    (large / file).unlink()
    (damage,) = verify(large)[1]
    assert (damage.file, damage.problem) == (file, "is missing")
    repair(large)
    assert (large / file).read_bytes() == before and verify(large)[1] == []


def test_parts_are_written_by_workers(tmp_path, small_parts, monkeypatch):
    """A job that may merge has steps for the index, and writes the same bytes."""
    alone = load_manifest(build(tmp_path / "alone"))
    monkeypatch.setattr(merge_levels, "_LOCAL_BYTES", 1)
    monkeypatch.delattr("beam_jobs.pipeline.write_index")
    spread = build(tmp_path / "spread")
    assert load_manifest(spread) == alone
    stages = json.loads((spread / naming.BUILD).read_text())["stages"]
    assert [stage["name"] for stage in stages][-2:] == ["shard", "commit"]


def test_a_build_again_has_nothing_to_do(large, tmp_path):
    before = (large / naming.MANIFEST).stat().st_mtime_ns
    build(tmp_path)
    assert (large / naming.MANIFEST).stat().st_mtime_ns == before


def test_a_large_set_is_appended_to_and_compacted(tmp_path, small_parts, monkeypatch):
    large = build(tmp_path)
    old = rows(large)
    append(options(tmp_path, source="more", append=True))
    manifest = load_manifest(large)
    assert manifest.format_version == 3
    parts = [part.file for part in manifest.splits["train"].index]
    assert parts[:5] == PARTS[:5]
    assert parts[5] == f"{naming.view_folder(1)}/{PARTS[5]}"
    assert rows(large)[: len(old)] == old
    assert verify(large)[1] == []
    assert load_manifest(large, 0).format_version == 3
    done = compact(large)
    assert done.manifest.format_version == 3 and not done.manifest.generations
    assert verify(large)[1] == []
    assert sorted(row["record_id"] for row in rows(large)) == [
        row["record_id"] for row in sorted(rows(large), key=lambda row: row["record_id"])
    ]
    monkeypatch.undo()
    removed = rows(large)[0]["record_id"]
    done = compact(large, [removed])
    assert done.manifest.format_version == 1 and verify(large)[1] == []
    assert removed not in {row["record_id"] for row in rows(large)}


def state_of(root: Path) -> tuple[Any, ...]:
    """Rows, shards and statistics of a set, all read now."""
    split = load_manifest(root).splits["train"]
    return rows(root), list(split.shards), split.statistics


@pytest.mark.parametrize(
    ("kind", "values"),
    [("image", {}), ("text", {}), ("text", {"train_tokenizer": "bpe:300", "pack": 16})],
    ids=["image", "text", "packed"],
)
def test_a_large_set_is_kept_up_as_a_small_one(tmp_path, kind, values, monkeypatch):
    """Appending, compacting and removing give the same records and shards with any parts."""
    corpus = options(tmp_path, kind), options(tmp_path, kind, "more")  # the files of both
    assert all(Path(job.sources[0]).exists() for job in corpus)
    small, large = tmp_path / "small", tmp_path / "large"
    removed = None
    for root, part_rows in ((small, index_parts.PART_ROWS), (large, PART_ROWS)):
        monkeypatch.setattr(index_parts, "PART_ROWS", part_rows)
        preprocess(options(tmp_path, kind, out=root, **values))
        append(options(tmp_path, kind, "more", out=root, append=True))
        names = [row.get("documents") or [row["record_id"]] for row in rows(root)]
        removed = removed or [names[3][0], names[-2][-1]]
        states = [state_of(root)]
        compact(root)
        states.append(state_of(root))
        compact(root, removed)
        states.append(state_of(root))
        assert verify(root)[1] == []
        if root == small:
            expected = states
    assert states == expected and load_manifest(large).splits["train"].index
    left = {name for row in rows(large) for name in row.get("documents") or [row["record_id"]]}
    assert not left & set(removed)


def test_stored_records_come_from_all_parts(large, monkeypatch):
    features = load_manifest(large).schema.features
    (classes,) = (one.class_names for one in features if one.kind == "class_label")
    expected = [
        {**row, "split": split, "label": classes[row["label"]]}
        for split in ("train", "test")
        for row in rows(large, split)
    ]
    (large / naming.STORED_RECORDS).unlink()  # so that the index is taken
    monkeypatch.setattr(bounds, "PLANNED_ROWS", 7)
    stored = StoredRecords(large, (), complete=False)
    tables = list(stored.tables(["key", "fingerprint"]))
    assert len(stored) == len(expected) and max(map(len, tables)) <= 7
    assert pa.concat_tables(tables).to_pylist() == [
        {name: row[name] for name in ("key", "fingerprint")} for row in expected
    ]
    order = np.random.default_rng(0).permutation(len(expected))[:30]
    names = ["label", "record_id", "split"]
    taken = stored.take(order, names).to_pylist()
    assert taken == [{name: expected[at][name] for name in names} for at in order.tolist()]
    assert len(stored.take(order[:0], names)) == 0


def test_a_small_set_becomes_a_large_one(tmp_path, monkeypatch):
    """The index of the first generation is the first part of that of the view."""
    small = build(tmp_path)
    old = rows(small)
    monkeypatch.setattr(index_parts, "PART_ROWS", len(old) + 1)
    append(options(tmp_path, source="more", append=True))
    manifest = load_manifest(small)
    assert [part.file for part in manifest.splits["train"].index] == [
        naming.index_file("train"),
        f"{naming.view_folder(1)}/{PARTS[1]}",
    ]
    assert rows(small)[: len(old)] == old and verify(small)[1] == []
    (small / naming.view_folder(1) / PARTS[1]).unlink()
    (small / naming.view_folder(1) / naming.shards_file("train")).unlink()
    assert repair(small).left == [] and verify(small)[1] == []


def damage(place: Path) -> None:
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 4
    place.write_bytes(data)


@pytest.mark.parametrize(
    "names",
    [[PARTS[1]], [PARTS[0], PARTS[3]], [naming.shards_file("train")]],
    ids=["part", "parts", "list"],
)
@pytest.mark.parametrize("how", [damage, Path.unlink])
def test_damaged_files_of_an_index_are_repaired(large, names, how):
    whole = {file: (large / file).read_bytes() for file in names}
    for file in names:
        how(large / file)
    assert {one.file for one in verify_set(large).damages} >= set(names)
    done = repair(large)
    assert set(done.repaired) >= set(names) and done.left == []
    assert {file: (large / file).read_bytes() for file in names} == whole
    assert verify(large)[1] == []


def test_a_shard_is_repaired_by_the_part_that_has_its_rows(large):
    file = load_manifest(large).splits["train"].shards[9].file
    whole = (large / file).read_bytes()
    damage(large / file)
    damage(large / PARTS[0])  # of other shards
    (one,) = (one for one in verify_set(large).damages if one.file == file)
    assert len(one.records) == 1 and one.records[0].record_id
    assert repair(large).left == [] and (large / file).read_bytes() == whole


@pytest.mark.parametrize("lost", [[], [naming.REMOVED, naming.REMOVED_COPY]], ids=["part", "ids"])
def test_a_compacted_set_is_repaired_without_what_was_removed(tmp_path, small_parts, lost):
    """Its builds are made again, and the removed records are found in all parts of an index."""
    large = build(tmp_path)
    append(options(tmp_path, source="more", append=True))
    ids = [row["record_id"] for row in rows(large)]
    expected = compact(large, [ids[5], ids[30], ids[-3]]).manifest.root_hash
    for name in (PARTS[2], *lost):
        (large / name).unlink()
    assert repair(large).left == [] and load_manifest(large).root_hash == expected
    assert verify(large)[1] == []


@pytest.mark.parametrize("lost", [["index"], ["index", naming.MANIFEST]], ids=["index", "both"])
def test_a_large_set_of_an_earlier_version_is_repaired(lost, tmp_path, monkeypatch):
    """It has one file for every split, and keeps it."""
    root = build(tmp_path)
    expected = load_manifest(root).root_hash
    monkeypatch.setattr(index_parts, "PART_ROWS", PART_ROWS)
    for name in lost:
        path = root / (naming.index_file("train") if name == "index" else name)
        path.unlink()
    assert repair(root).left == []
    assert load_manifest(root).root_hash == expected and verify(root)[1] == []


def test_swapped_parts_are_named(large):
    first, second = (large / PARTS[0]).read_bytes(), (large / PARTS[1]).read_bytes()
    (large / PARTS[0]).write_bytes(second)
    (large / PARTS[1]).write_bytes(first)
    damages = {one.file for one in verify_set(large).damages}
    assert damages == {PARTS[0], PARTS[1]}
    assert repair(large).left == []


def test_a_missing_file_of_an_index_is_named(large):
    (large / PARTS[1]).unlink()
    with pytest.raises(ShardSetError, match=r"index/train-00001\.arrow is missing"):
        rows(large)
    (large / naming.shards_file("train")).unlink()
    with pytest.raises(ShardSetError, match=r"index/train\.shards\.arrow is missing"):
        list(load_manifest(large).splits["train"].shards)


@pytest.mark.parametrize(
    "change",
    [
        lambda split: split["index"].pop(),
        lambda split: split["index"][0].update(shards=1),
        lambda split: split["index"][0].update(file="../train.arrow"),
        lambda split: split.pop("index"),
        lambda split: split.update(shards=3),
        lambda split: split.update(shards=True),
        lambda split: split.update(shards=[]),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(large, change):
    from shard_format.manifest import root_hash_of

    raw = json.loads((large / naming.MANIFEST).read_text())
    del raw["root_hash"]
    change(raw["splits"]["train"])
    (large / naming.MANIFEST).write_text(json.dumps({**raw, "root_hash": root_hash_of(raw)}))
    with pytest.raises(DamageError, match=r"manifest\.json"):
        load_manifest(large)


def test_a_list_of_shards_may_name_no_file_outside_of_the_set(large):
    split, place = load_manifest(large).splits["train"], large / naming.shards_file("train")
    shards = list(split.shards)
    shards[2] = dataclasses.replace(shards[2], file="../../somebody.tfrecord")
    write_shard_list(place, shards)
    with pytest.raises(DamageError, match="does not match its SHA-256"):
        list(load_manifest(large).splits["train"].shards)
    other = ShardList(place, len(shards), split.records, split.bytes, file_sha256(place))
    with pytest.raises(DamageError, match="outside of its set"):
        list(other)
    short = ShardList(place, len(shards) + 1, split.records, split.bytes, file_sha256(place))
    with pytest.raises(DamageError, match=r"has 16 shards .* but 17 of"):
        list(short)


def test_a_record_that_is_removed_from_a_large_set_leaves_every_file(large):
    name = rows(large)[PART_ROWS]["record_id"]
    compact(large, [name])
    assert name not in {row["record_id"] for row in rows(large)}
    assert load_manifest(large).format_version == 3 and verify(large)[1] == []


@pytest.mark.parametrize("step", ["_replace", "_give_name", "_delete_others"])
def test_a_killed_compaction_of_a_large_set_is_completed(large, tmp_path, step, monkeypatch):
    """Meanwhile the list of shards and the parts are in the folder of the compaction, or not."""
    append(options(tmp_path, source="more", append=True))
    shutil.copytree(large, tmp_path / "whole")
    whole = compact(tmp_path / "whole").manifest

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(publishing, step, die)
        compact(large)
    assert verify_set(large).damages == []
    assert len(rows(large)) == len(rows(tmp_path / "whole"))
    assert compact(large).manifest == whole
    assert load_manifest(large) == whole and verify(large)[1] == []


def test_a_set_in_a_bucket_has_parts_too(tmp_path, small_parts, memory):
    local = build(tmp_path)
    out = "memory://bucket/set"
    manifest = preprocess(options(tmp_path, out=out)).manifest
    assert manifest == load_manifest(local)
    assert verify(out)[1] == []
    append(options(tmp_path, source="more", out=out, append=True))
    append(options(tmp_path, source="more", append=True))
    assert load_manifest(out) == load_manifest(local) and verify(out)[1] == []
    storage.delete(storage.Url(f"{out}/{PARTS[1]}"))
    storage.delete(storage.Url(f"{out}/{naming.shards_file('train')}"))
    assert repair(out).left == []
    assert compact(out).manifest == compact(local).manifest
    assert verify(out)[1] == []


def test_beam_writes_the_parts_in_steps_of_their_own(tmp_path, small_parts, monkeypatch):
    import apache_beam as beam
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    from beam_jobs import BuildShardSet

    expected = load_manifest(build(tmp_path / "expected"))
    monkeypatch.setattr("beam_jobs.pipeline.merging_at", lambda *_: FORCED)
    monkeypatch.setattr("beam_jobs.stages.plan.plan.choose_levels", forced_levels(1))
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | BuildShardSet(options(tmp_path / "spread"))
    assert load_manifest(tmp_path / "spread" / "set") == expected
    assert verify(tmp_path / "spread" / "set")[1] == []


def test_a_list_is_repaired_from_the_shards_alone(large, tmp_path):
    shutil.rmtree(tmp_path / "corpus")
    damage(large / naming.shards_file("train"))
    done = repair(large)
    assert done.repaired == [naming.shards_file("train")] and done.left == []
