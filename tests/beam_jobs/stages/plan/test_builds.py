"""Duplicates and boundaries: whole columns, checked against the obvious way."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_jobs.stages import stage
from beam_jobs.stages.plan import plan
from beam_jobs.stages.plan.key_order import SplitKeys
from beam_jobs.stages.plan.quantiles import Quantiles, histogram_bits
from beam_jobs.staging.reordering import rows_of_partition
from shard_format import open_index

uint64 = st.integers(0, 2**64 - 1)
clustered = st.integers(0, 50).map(lambda n: n << 57)  # many in few bins


@given(st.lists(uint64 | clustered, unique=True), st.integers(1, 60), st.sampled_from([4, 8, 16]))
def test_shards_differ_by_at_most_one_record(keys, num_shards, bits):
    keys = np.array(keys, np.uint64)
    num_shards = min(num_shards, len(keys))
    split = SplitKeys("train", Quantiles(bits))
    pieces = np.array_split(keys, 3)
    for piece in pieces:
        split.keys.count(piece)
    split.cut(num_shards)
    for piece in pieces:
        split.keys.collect(piece)
    shard_of = np.searchsorted(split.begins(), keys, side="right")
    counts = np.bincount(shard_of, minlength=num_shards)
    if len(keys):
        assert len(counts) == num_shards
        assert counts.max() - counts.min() <= 1
        assert counts.min() >= 1


@given(
    st.lists(st.tuples(st.integers(0, 2), uint64 | clustered), unique=True, min_size=1),
    st.sampled_from([4, 8]),
    st.data(),
)
def test_keys_of_any_ranks_of_any_groups(pairs, bits, data):
    groups, keys = np.array(pairs, np.uint64).T
    groups = groups.astype(np.int64)
    expected = [np.sort(keys[groups == group]) for group in range(3)]
    ranks = [
        np.array(data.draw(st.lists(st.integers(0, max(0, len(one) - 1)), max_size=4 * len(one))))
        for one in expected
    ]
    ranks = [one.astype(np.int64) for one in ranks]
    quantiles = Quantiles(bits, 3)
    for piece in np.array_split(np.arange(len(keys)), 2):
        quantiles.count(keys[piece], groups[piece])
    assert quantiles.counts.tolist() == [len(one) for one in expected]
    quantiles.choose(ranks)
    for piece in np.array_split(np.arange(len(keys)), 2):
        quantiles.collect(keys[piece], groups[piece])
    for chosen, one, wanted in zip(quantiles.keys(), expected, ranks, strict=True):
        assert chosen.tolist() == one[wanted].tolist()


@pytest.mark.parametrize("records", [1, 10**6, (1 << 24) + 1, 2 * 10**7, 10**9, 10**11])
def test_counting_keys_takes_little_memory_at_any_size(records):
    """16.8 million records had 128 MiB per split where 16.7 million had half of one."""
    bins = 1 << histogram_bits(records)
    assert 8 * bins <= min(max(records // 8, 1 << 19), 128 << 20)
    assert records / bins <= 256 or bins == 1 << 24  # all that a boundary collects


def _rows(manifest, out):
    index = open_index(out / "index" / "train.arrow")
    return index.to_pylist()


def test_of_equal_records_the_first_id_is_kept(tmp_path, kind, build):
    corpus = kind.make(6, classes=2)
    first = (corpus / "class0" / kind.file("000")).read_bytes()
    (corpus / "class0" / kind.file("aaa")).write_bytes(first)
    (corpus / "class1" / kind.file("zzz")).write_bytes(first)
    for seed in (0, 1):
        report = build(corpus, f"set{seed}", seed=seed, split="train=1")
        assert report.manifest.ledger.duplicates == 2
        ids = {row["record_id"] for row in _rows(report.manifest, tmp_path / f"set{seed}")}
        assert kind.file("class0/000") in ids
        assert not ids & {kind.file("class0/aaa"), kind.file("class1/zzz")}


@pytest.mark.parametrize("changes", [{}, {"dedup": "off"}, {"split": "folders"}])
def test_planning_reads_as_many_rows_as_it_says(tmp_path, build, changes, monkeypatch):
    corpus = tmp_path / "corpus"
    for split in ("train", "test"):
        (corpus / split / "a").mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (8, 8), (number, 9, 99)).save(corpus / split / "a" / f"{number}.png")
    reported = []

    def note(path, stage, done=0, total=0):
        if stage == "plan":
            reported.append((done, total))

    monkeypatch.setattr(plan, "report", note)
    build(corpus, source="class-folders", **changes)
    done, total = (sum(column) for column in zip(*reported, strict=True))
    assert done == total > 0


def test_dedup_off_keeps_all(kind, build):
    corpus = kind.make(6)
    (corpus / "class0" / kind.file("copy")).write_bytes(
        (corpus / "class0" / kind.file("000")).read_bytes()
    )
    assert build(corpus, dedup="off").manifest.ledger.kept == 7


def test_small_partitions_give_the_same_set(kind, build, monkeypatch):
    """What a corpus of billions goes through: many partitions of fingerprints and of keys."""
    corpus = kind.make(40, classes=4)
    for number in range(8):
        copy = corpus / "class1" / kind.file(f"copy{number}")
        copy.write_bytes((corpus / "class0" / kind.file(f"{4 * number:03d}")).read_bytes())
    options = {"unit_size": "4KiB", "num_shards": 3}
    expected = build(corpus, "one", **options).manifest

    real = plan.plan_shards
    monkeypatch.setattr(
        "beam_jobs.pipeline.plan_shards", lambda *arguments: real(*arguments, partition_rows=5)
    )
    manifest = build(corpus, "many", **options).manifest
    assert manifest.ledger.duplicates == 8
    assert manifest.root_hash == expected.root_hash


def test_colliding_keys_are_ordered_by_record_id(kind, build, monkeypatch, tmp_path):
    """Made to collide, since 64 bits will not: three keys for forty records."""
    corpus = kind.make(40, classes=4)
    monkeypatch.setattr(
        stage,
        "shuffle_keys",
        lambda hashes, seed: np.array([(h % 3) << 62 for h in hashes], np.uint64),
    )
    roots = set()
    for unit_size in ("2KiB", "8KiB", "1MiB"):
        out = tmp_path / unit_size
        report = build(corpus, out, unit_size=unit_size, split="train=1", num_shards=1)
        roots.add(report.manifest.root_hash)
        rows = [(row["key"], row["record_id"]) for row in _rows(report.manifest, out)]
        assert rows == sorted(rows)
        assert len(collections.Counter(key for key, _ in rows)) == 3
    assert len(roots) == 1


def test_a_partition_has_the_same_rows_for_up_to_16_million_records():
    assert {rows_of_partition(records) for records in (0, 1, 10**6, 1 << 23)} == {1 << 15}
    assert rows_of_partition(10**8) == -(-(10**8) // 256)  # each partition looks at every unit
    assert rows_of_partition(1 << 40) == 4 << 20


@pytest.mark.parametrize("num_shards", [1, 3, 7, 16])
def test_balance(kind, build, num_shards):
    report = build(kind.make(60, classes=4), num_shards=num_shards, split="train=0.8,test=0.2")
    for split in report.manifest.splits.values():
        counts = [shard.records for shard in split.shards]
        assert max(counts) - min(counts) <= 1
        assert min(counts) >= 1
        assert len(counts) == min(num_shards, split.records)


def test_more_shards_than_records_says_so(kind, build):
    report = build(kind.make(5), num_shards=64, split="train=1")
    assert [shard.records for shard in report.manifest.splits["train"].shards] == [1] * 5
    assert any("5 shards are written instead of 64" in note for note in report.build["notes"])


def test_an_empty_split_has_an_index_and_no_shard(kind, build, tmp_path):
    report = build(kind.make(3), split="train=0.999999,rare=0.000001")
    assert report.manifest.splits["rare"].shards == ()
    assert len(open_index(tmp_path / "set" / "index" / "rare.arrow")) == 0
    assert any("rare" in note for note in report.build["warnings"])


def test_the_split_does_not_depend_on_the_seed(kind, build, tmp_path):
    corpus = kind.make(60)
    members = []
    for seed in (0, 5):
        build(corpus, f"set{seed}", seed=seed, split="train=0.5,test=0.5")
        index = open_index(tmp_path / f"set{seed}" / "index" / "test.arrow")
        members.append(index["record_id"].to_pylist())
    assert sorted(members[0]) == sorted(members[1])
    assert members[0] != members[1]


def test_the_index_points_at_its_records(kind, build, tmp_path):
    from shard_format import decode_example, unframe

    report = build(kind.make(30), num_shards=4)
    out = tmp_path / "set"
    names = report.manifest.schema["label"].class_names
    for split, info in report.manifest.splits.items():
        for row in open_index(out / "index" / f"{split}.arrow").to_pylist():
            shard = (out / info.shards[row["shard"]].file).read_bytes()
            framed = shard[row["offset"] : row["offset"] + row["length"]]
            example = decode_example(unframe(framed, "shard"))
            assert example["id"] == [row["record_id"].encode()]
            assert example["label"] == [row["label"]]
            assert row["record_id"].startswith(names[row["label"]] + "/")
