"""duplicates.parquet: what was left out for the sake of what."""

from __future__ import annotations

import itertools

import pyarrow.parquet as pq
import pytest

from beam_jobs.stages.plan import list_duplicates
from shard_format import open_index
from shard_format.verification import verify


@pytest.fixture
def corpus(kind):
    """20 images. Three occur twice, one of the three in two classes."""
    root = kind.make(20, classes=2)
    for name, copy in (
        (kind.file("class0/000"), kind.file("class0/copy0")),
        (kind.file("class1/001"), kind.file("class1/copy1")),
        (kind.file("class0/002"), kind.file("class1/copy2")),
    ):
        (root / copy).write_bytes((root / name).read_bytes())
    return root


def _duplicates(out):
    return pq.read_table(out / "duplicates.parquet").to_pylist()


def _ids(out):
    return {
        name
        for file in (out / "index").glob("*.arrow")
        for name in open_index(file)["record_id"].to_pylist()
    }


def test_what_was_left_out_and_for_what(kind, corpus, build, tmp_path):
    report = build(corpus)
    rows = {row["record_id"]: row for row in _duplicates(tmp_path / "set")}
    assert len(rows) == 3
    assert [name for name, row in rows.items() if row["dropped"]] == [
        kind.file("class0/copy0"),
        kind.file("class1/copy2"),
        kind.file("class1/copy1"),
    ]
    clash = rows[kind.file("class1/copy2")]
    assert (clash["kept_id"], clash["kept_label"], clash["label"]) == (
        kind.file("class0/002"),
        "class0",
        "class1",
    )
    assert clash["conflict"] and not rows[kind.file("class0/copy0")]["conflict"]
    assert _ids(tmp_path / "set").isdisjoint(n for n, row in rows.items() if row["dropped"])
    for row in rows.values():
        index = open_index(tmp_path / "set" / "index" / f"{row['split']}.arrow")
        assert row["kept_id"] in index["record_id"].to_pylist()
    assert any("1 of 3 duplicate clusters" in note for note in report.build["notes"])
    assert verify(tmp_path / "set")[1] == []


def test_rows_that_come_one_by_one_make_the_same_file(corpus, build, monkeypatch):
    """As of many duplicates, whose clusters do not end where a batch does."""
    expected = build(corpus, "one").manifest
    read = list_duplicates.read_batches
    monkeypatch.setattr(
        list_duplicates,
        "read_batches",
        lambda place: (rows.slice(at, 1) for rows in read(place) for at in range(len(rows))),
    )
    assert build(corpus, "many").manifest.root_hash == expected.root_hash


def test_contradictory_clusters_are_left_out_on_request(kind, corpus, build, tmp_path):
    ledger = build(corpus, conflicts="drop").manifest.ledger
    assert (ledger.kept, ledger.duplicates, ledger.filtered) == (19, 3, 1)
    assert ledger.reasons == {"label-conflict": 1}
    assert _ids(tmp_path / "set").isdisjoint({kind.file("class0/002"), kind.file("class1/copy2")})
    rows = {row["record_id"]: row for row in _duplicates(tmp_path / "set")}
    assert (
        rows[kind.file("class0/002")]["dropped"] and rows[kind.file("class0/002")]["split"] is None
    )


def test_duplicates_that_are_kept_are_in_one_split(kind, build, tmp_path):
    corpus = kind.make(60, classes=2)
    for number in range(0, 60, 2):
        copy = corpus / "class1" / kind.file(f"z{number}")
        copy.write_bytes((corpus / "class0" / kind.file(f"{number:03d}")).read_bytes())
    report = build(corpus, duplicates="keep", split="train=0.5,test=0.5")
    assert (report.manifest.ledger.kept, report.manifest.ledger.duplicates) == (90, 0)
    sides = {
        name: split
        for split in ("train", "test")
        for name in open_index(tmp_path / "set" / "index" / f"{split}.arrow")[
            "record_id"
        ].to_pylist()
    }
    rows = _duplicates(tmp_path / "set")
    assert len(rows) == 30
    assert all(sides[row["record_id"]] == sides[row["kept_id"]] == row["split"] for row in rows)


def test_a_set_without_duplicates_has_no_such_file(kind, build, tmp_path):
    build(kind.make(5))
    assert not (tmp_path / "set" / "duplicates.parquet").exists()


@pytest.mark.parametrize("balance", ["oversample", "undersample"])
def test_four_to_one(kind, build, tmp_path, balance):
    corpus = kind.make(100, classes=5)
    for folder in ("class1", "class2", "class3"):
        for file in (corpus / folder).iterdir():
            file.rename(corpus / "class0" / f"{folder}-{file.name}")
        (corpus / folder).rmdir()
    report = build(corpus, balance=balance, split="train=0.8,test=0.2", num_shards=3)
    train, test = (report.manifest.splits[name] for name in ("train", "test"))
    counts = list(train.statistics["class_counts"].values())
    assert max(counts) - min(counts) <= 1
    assert train.statistics["class_weights"] == {"class0": 1.0, "class4": 1.0}
    assert "class_weights" not in test.statistics
    ledger = report.manifest.ledger
    written = sum(split.records for split in report.manifest.splits.values())
    assert written == ledger.kept + ledger.repeated
    assert ledger.read == 100 == ledger.kept + ledger.filtered
    index = open_index(tmp_path / "set" / "index" / "train.arrow")
    keys = index["key"].to_pylist()
    assert keys == sorted(keys)
    ids = index["record_id"].to_pylist()
    if balance == "oversample":
        assert ledger.repeated > 30
        assert max(ids.count(name) for name in set(ids)) >= 4
        # Copies are scattered, not side by side.
        assert sum(one == two for one, two in itertools.pairwise(ids)) < len(ids) / 10
    else:
        assert ledger.reasons == {"undersampled": ledger.filtered}
        assert len(set(ids)) == len(ids)
    assert verify(tmp_path / "set")[1] == []


def test_statistics_are_those_of_the_training_split(kind, build, tmp_path):
    report = build(kind.make(40), split="train=0.6,test=0.4")
    train, test = (report.manifest.splits[name].statistics for name in ("train", "test"))
    assert set(test) == {"class_counts"}
    index = open_index(tmp_path / "set" / "index" / "train.arrow")
    for name in kind.counted:
        values = index[name].to_pylist()
        summary = train[name]
        assert (summary["min"], summary["max"]) == (min(values), max(values))
        assert summary["mean"] == sum(values) / len(values)
        edges, counts = summary["histogram"]["edges"], summary["histogram"]["counts"]
        assert len(edges) == len(counts) + 1
        for low, high, count in zip(edges, edges[1:], counts, strict=False):
            assert count == sum(low <= value < high for value in values)
        assert sum(counts) == len(values)
    if kind.name == "image":
        assert len(train["pixels"]["mean"]) == 3
