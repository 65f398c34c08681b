"""--append: a new generation next to old ones that stay as they are."""

from __future__ import annotations

import json
import os

import pytest

from shard_format import InputError, UsageError, load_manifest, open_index, verify
from tests.fixtures.generations import Killed, die_after

OLD = {f"{'ab'[n % 2]}/old{n}": n for n in range(12)}
NEW = {f"{'ab'[n % 2]}/new{n}": 100 + n for n in range(6)}


def _bytes(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_old_records_stay_where_they_are(write_corpus, begin_set, append_to, records_of, tmp_path):
    first = begin_set(write_corpus("old", OLD), num_shards=2)
    before, frames = _bytes(tmp_path / "set"), records_of()
    report = append_to(write_corpus("new", {**NEW, "b/copy": 0, "a/twice": 100}))
    changed = {path.name for path, data in before.items() if path.read_bytes() != data}
    assert changed == {"manifest.json"}

    # Of a/new0 and its copy a/twice the first id is kept; b/copy is that of an old record.
    records = records_of()
    assert records.keys() - frames.keys() == {f"{name}.jpg" for name in NEW}
    assert {name: records[name] for name in frames} == frames
    assert report.own.ledger.duplicates == 2 and report.own.ledger.kept == 6
    manifest = load_manifest(tmp_path / "set")
    for split, info in first.splits.items():
        assert manifest.splits[split].shards[: len(info.shards)] == info.shards
        old = open_index(tmp_path / "set" / first.index_file(split))
        whole = open_index(tmp_path / "set" / manifest.index_file(split))
        assert whole.slice(0, len(old)).equals(old)
        counts = manifest.splits[split].statistics["class_counts"]
        assert sum(counts.values()) == manifest.splits[split].records
        sizes = manifest.splits[split].statistics
        if split == "train":
            assert sum(sizes["width"]["histogram"]["counts"]) == len(whole)
            assert sizes["pixels"] == first.splits["train"].statistics["pixels"]
    ledger = manifest.ledger
    assert (ledger.read, ledger.kept, ledger.duplicates) == (20, 18, 2)
    assert verify(tmp_path / "set")[1] == []
    assert load_manifest(tmp_path / "set", 0) == first
    assert records_of(generation=0) == frames


def test_the_same_sources_again_change_nothing(write_corpus, begin_set, append_to, tmp_path):
    old, new = write_corpus("old", OLD), write_corpus("new", NEW)
    begin_set(old)
    assert not append_to(new).already_built
    before = _bytes(tmp_path / "set")
    assert [append_to(source).number for source in (new, old)] == [1, 0]
    assert append_to(new).already_built
    assert _bytes(tmp_path / "set") == before


def test_it_does_not_depend_on_how_often_it_is_run(write_corpus, begin_set, append_to):
    old, new = write_corpus("old", OLD), write_corpus("new", NEW)
    hashes = set()
    for out in ("one", "two"):
        begin_set(old, out)
        hashes.add(append_to(new, out).manifest.root_hash)
    assert len(hashes) == 1


def test_new_classes(write_corpus, begin_set, append_to, tmp_path):
    begin_set(write_corpus("old", OLD))
    new = write_corpus("new", {**NEW, "A/first": 300, "c/last": 301})
    with pytest.raises(InputError, match=r"2 classes that .* does not have: 'A', 'c'"):
        append_to(new, new_classes="refuse")
    assert load_manifest(tmp_path / "set").schema["label"].class_names == ("a", "b")
    manifest = append_to(new).manifest
    assert manifest.schema["label"].class_names == ("a", "b", "A", "c")


def test_other_options_are_refused(write_corpus, begin_set, append_to, tmp_path):
    begin_set(write_corpus("old", OLD), seed=3)
    new = write_corpus("new", NEW)
    with pytest.raises(UsageError, match="--resize is fit:8x8 and shorter:256 in the set"):
        append_to(new, resize="fit:8x8")
    with pytest.raises(UsageError, match="--seed is 4 and 3 in the set"):
        append_to(new, seed=4)
    assert append_to(new, seed=3).number == 1


def test_sets_that_depend_on_all_records_are_refused(write_corpus, begin_set, append_to):
    begin_set(write_corpus("old", OLD), balance="undersample")
    with pytest.raises(InputError, match="was built with --balance undersample"):
        append_to(write_corpus("new", NEW))


def test_an_id_that_is_taken(write_corpus, begin_set, append_to, records_of):
    begin_set(write_corpus("old", OLD))
    new = write_corpus("new", {"a/old0": 200, "b/old1": 1})
    with pytest.raises(InputError, match=r"1 records have the id .* the first is 'a/old0.jpg'"):
        append_to(new)
    append_to(new, id_prefix="2026")
    records = records_of()
    assert "2026/a/old0.jpg" in records and "2026/b/old1.jpg" not in records


def test_groups_follow_their_old_records(tmp_path, begin_set, append_to):
    """Each group is in the split of its old records, which no hash of the group decides."""
    rows = [{"text": f"old words {n} " * 4, "g": f"g{n % 8}", "label": "x"} for n in range(24)]
    (tmp_path / "old.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = {"kind": "text", "group_by": "g", "stratify": True, "split": "train=0.5,test=0.5"}
    options |= {"text_column": "text", "label_column": "label", "clean": "none"}
    begin_set(tmp_path / "old.jsonl", **options)
    new = [{"text": f"new text {n} " * 4, "g": f"g{n % 12}", "label": "x"} for n in range(24)]
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, new)))
    append_to(tmp_path / "new.jsonl", kind="text", split=None)
    manifest, split_of = load_manifest(tmp_path / "set"), {}
    for split in manifest.splits:
        index = open_index(tmp_path / "set" / manifest.index_file(split))
        split_of |= dict.fromkeys(index["record_id"].to_pylist(), split)
    splits: dict[str, set[str]] = {}
    # Ids are in the order of the lines, all of which are kept.
    for file, table in (("old", rows), ("new", new)):
        names = sorted(name for name in split_of if file in name)
        for name, row in zip(names, table, strict=True):
            splits.setdefault(row["g"], set()).add(split_of[name])
    assert len(splits) == 12 and all(len(of_group) == 1 for of_group in splits.values())


TEXT = "the quick brown fox jumps over a lazy dog while seven wizards brew potions at midnight "


@pytest.mark.parametrize("duplicates", ["drop", "keep"])
def test_near_duplicates_of_old_documents(duplicates, tmp_path, begin_set, append_to, records_of):
    """Also through an old one that was dropped, and is in no shard."""

    def version(*changed):
        """Each changed word makes 5 of 96 shingles others."""
        return " ".join(f"{'other' if n in changed else 'word'}{n}" for n in range(100))

    for name, texts in {
        "old": [version(), version(10, 30), "nothing like it " + "zebra " * 30],
        "new": [version(10, 30, 50, 70), "something else " + "lion tiger " * 20],
    }.items():
        (tmp_path / name).mkdir()
        for number, text in enumerate(texts):
            (tmp_path / name / f"{name}{number}.txt").write_text(text)
    options = {"kind": "text", "no_labels": True, "dedup": "near", "duplicates": duplicates}
    begin_set(tmp_path / "old", near_threshold=0.75, **options)
    report = append_to(tmp_path / "new", **options)
    records = records_of()
    if duplicates == "drop":
        assert report.own.ledger.duplicates == 1
        assert records.keys() == {"old0.txt", "old2.txt", "new1.txt"}
    else:
        assert len({records[name][0] for name in ("old0.txt", "old1.txt", "new0.txt")}) == 1
    assert (tmp_path / "set" / "fingerprints" / "records.arrow").exists()


def test_near_duplicates_of_old_images(samples, tmp_path, begin_set, append_to, records_of):
    import shutil

    from PIL import Image

    files = sorted((samples / "hat").iterdir())[:6]
    for name in ("old/hat", "new/hat"):
        (tmp_path / name).mkdir(parents=True)
    for file in files[:4]:
        shutil.copy(file, tmp_path / "old/hat")
    shutil.copy(files[4], tmp_path / "new/hat")
    with Image.open(files[0]) as image:
        image.resize((image.width // 2, image.height // 2)).save(tmp_path / "new/hat/small.jpg")
    begin_set(tmp_path / "old", dedup="near", resize="shorter:64")
    report = append_to(tmp_path / "new", dedup="near", resize="shorter:64")
    assert report.own.ledger.duplicates == 1
    assert "hat/small.jpg" not in records_of()


def test_what_was_not_stored_is_named(write_corpus, begin_set, append_to, tmp_path):
    begin_set(write_corpus("old", OLD), conflicts="drop", no_fingerprints=True)
    with pytest.raises(InputError, match="has not stored what duplicates"):
        append_to(write_corpus("new", NEW))


def test_tokens_of_the_first_tokenizer(tmp_path, begin_set, append_to):
    for name, text in {"old": TEXT, "new": TEXT + "more of these words"}.items():
        (tmp_path / name).mkdir()
        for number in range(4):
            (tmp_path / name / f"{name}{number}.txt").write_text(f"{text} {number}")
    options = {"kind": "text", "no_labels": True, "train_tokenizer": "bpe:300"}
    begin_set(tmp_path / "old", **options)
    report = append_to(tmp_path / "new", kind="text")
    tokenizer = load_manifest(tmp_path / "set", 0).files["tokenizer.json"]
    assert report.own.files["tokenizer.json"] == tokenizer
    assert report.manifest.config == load_manifest(tmp_path / "set", 0).config


def test_a_crash_before_any_rename(write_corpus, begin_set, append_to, tmp_path, monkeypatch):
    old, new = write_corpus("old", OLD), write_corpus("new", {**NEW, "b/copy": 0})
    (new / "a" / "broken.jpg").write_bytes(b"no image")
    begin_set(old, "whole")
    expected = append_to(new, "whole").manifest.root_hash
    names = {path.relative_to(tmp_path / "whole") for path in _bytes(tmp_path / "whole")}
    crashes = 0
    while True:
        out = f"crash{crashes}"
        begin_set(old, out)
        with monkeypatch.context() as patch:
            die_after(crashes, patch)
            try:
                append_to(new, out)
                break
            except Killed:
                pass
        # Whatever the moment, there is a whole set: the old one or the new one.
        assert verify(tmp_path / out)[1] == []
        assert append_to(new, out).manifest.root_hash == expected
        assert {path.relative_to(tmp_path / out) for path in _bytes(tmp_path / out)} == names
        crashes += 17
    assert crashes > 30


def test_what_another_command_left_is_published(
    write_corpus, begin_set, append_to, tmp_path, monkeypatch
):
    """A generation that is whole, but was not published before its process died."""
    from beam_jobs.generations import append as module

    begin_set(write_corpus("old", OLD))

    def die(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, "publish", die)
        with pytest.raises(Killed):
            append_to(write_corpus("other", {"a/other": 700, "c/class": 701}))
    assert (tmp_path / "set/generations/0001/manifest.json").exists()
    report = append_to(write_corpus("new", NEW))
    assert report.number == 2 and report.manifest.ledger.kept == 20
    assert report.manifest.schema["label"].class_names == ("a", "b", "c")
    assert verify(tmp_path / "set")[1] == []


def test_files_that_are_kept_and_dropped_may_be_read_again(
    begin_set, append_to, write_corpus, tmp_path
):
    """Where pixels decide about equal fingerprints, a dropped record has none in the set."""
    images = {"a/0": 0, "b/1": 1, "a/x": 3, "a/y": 3, "b/y": 4, "a/z": 4}
    source = write_corpus("old", images)
    begin_set(source, quality="keep", conflicts="drop")
    for path in source.rglob("*.jpg"):
        os.utime(path, ns=(10**18, 10**18))
    ledger = append_to(source).own.ledger
    assert (ledger.read, ledger.kept, ledger.duplicates) == (6, 0, 6)
