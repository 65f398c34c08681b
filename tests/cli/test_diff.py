"""`shardmill diff`: against a comparison record by record, and as a person types it."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from foundation.errors import DamageError, UsageError
from shard_format import load_manifest, open_index
from shard_format.set_comparison import DIFFERENCES_SCHEMA, compare_sets

OLD = {f"{'ab'[n % 2]}/r{n}": n for n in range(20)}
# Of the old ones two are gone, one has other pixels, two have another class, and three are new.
NEW = {name: seed for name, seed in OLD.items() if name not in ("a/r0", "b/r1", "a/r6", "b/r7")}
NEW |= {"a/r2": 200, "b/r6": 6, "c/r7": 7, "a/n1": 101, "b/n2": 102, "c/n3": 103}


def _rows(root, generation=None):
    """(fingerprint, class, split) by the id of each record."""
    manifest = load_manifest(root, generation)
    names = manifest.schema["label"].class_names
    return {
        row["record_id"]: (row["fingerprint"], names[row["label"]], split)
        for split in manifest.splits
        for row in open_index(root / manifest.index_file(split)).to_pylist()
    }


def _expected(old, new):
    for name in sorted(old.keys() | new.keys()):
        (print_a, label_a, split_a), (print_b, label_b, split_b) = (
            side.get(name, (None, None, None)) for side in (old, new)
        )
        pairs = {"payload": (print_a, print_b), "label": (label_a, label_b)}
        pairs["split"] = (split_a, split_b)
        changed = [what for what, (a, b) in pairs.items() if a != b]
        what = "added" if name not in old else "removed" if name not in new else "changed"
        if changed:
            listed = changed if what == "changed" else []
            yield (name, what, listed, split_a, label_a, split_b, label_b)


def _sorted(rows):
    return sorted(rows, key=lambda row: (row[1], row[0]))


def test_every_difference_and_no_other(write_corpus, begin_set, tmp_path):
    old, new = tmp_path / "old-set", tmp_path / "new-set"
    begin_set(write_corpus("old", OLD), "old-set", resize="shorter:8")
    begin_set(
        write_corpus("new", NEW), "new-set", resize="shorter:8", split="train=0.3,test=0.7", seed=5
    )
    compared = compare_sets(old, new)
    rows = [tuple(row.values()) for row in compared.records.to_pylist()]
    assert rows == _sorted(_expected(_rows(old), _rows(new)))
    changes = {change for row in rows for change in row[2]}
    assert {row[1] for row in rows} == {"added", "removed", "changed"}
    assert changes == {"payload", "split"}  # classes are folders, so a record of another has an id
    assert compared.options["seed"] == [0, 5] and compared.options.keys() == {"seed", "split"}
    counts = compared.counts()
    assert counts["same"] + counts["changed"] + counts["added"] == len(_rows(new))
    assert not compared.equal
    back = compare_sets(new, old)
    assert back.counts() == counts | {"added": counts["removed"], "removed": counts["added"]}


def test_labels_of_the_same_ids(tmp_path, build, make_images):
    """Another table of labels: classes have other numbers, and equal names are equal."""
    source = make_images(6)
    names = sorted(str(path.relative_to(source)) for path in source.rglob("*.jpg"))
    for out, labels in {"one": "bcbcbc", "two": "bcacbc"}.items():
        lines = [f"{name},{label}" for name, label in zip(names, labels, strict=True)]
        (tmp_path / f"{out}.csv").write_text("\n".join(["path,label", *lines]) + "\n")
        build(source, out, labels=str(tmp_path / f"{out}.csv"))
    (row,) = compare_sets(tmp_path / "one", tmp_path / "two").records.to_pylist()
    assert (row["record_id"], row["changed"]) == (names[2], ["label"])
    assert (row["label_before"], row["label_after"]) == ("b", "a")


def test_several_labels_are_a_set(make_images, build, tmp_path):
    """Of which the order and the numbers of the classes do not matter."""
    source = make_images(4, classes=2)
    names = sorted(str(path.relative_to(source)) for path in source.rglob("*.jpg"))
    for out, labels in {"one": ("b|c", "c", "", "b"), "two": ("c|b", "c|a", "", "b")}.items():
        lines = [f"{name},{label}" for name, label in zip(names, labels, strict=True)]
        (tmp_path / f"{out}.csv").write_text("\n".join(["path,label", *lines]) + "\n")
        build(source, out, labels=str(tmp_path / f"{out}.csv"), multi_label=True)
    (row,) = compare_sets(tmp_path / "one", tmp_path / "two").records.to_pylist()
    assert (row["record_id"], row["changed"]) == (names[1], ["label"])
    assert (row["label_before"], row["label_after"]) == ("c", "a, c")


def test_repeated_records_count_once(make_images, build, tmp_path):
    source = make_images(9, classes=2)
    build(source, "one")
    build(source, "two", balance="oversample")
    assert load_manifest(tmp_path / "two").ledger.repeated
    compared = compare_sets(tmp_path / "one", tmp_path / "two")
    assert compared.counts()["same"] == 9 and compared.options.keys() == {"balance"}


def test_a_text_with_edits_that_its_fingerprint_ignores(tmp_path, shardmill):
    for out, text in {"one": "Some text.", "two": "some  text."}.items():
        (tmp_path / f"{out}.txt").write_text(text)
        (tmp_path / f"{out}.jsonl").write_text(json.dumps({"text": text, "id": 1}) + "\n")
        source, sets = tmp_path / f"{out}.jsonl", tmp_path / out
        done = shardmill("preprocess", "text", source, "--out", sets, "--id-column", "id")
        assert done.returncode == 0, done.stderr
    (row,) = compare_sets(tmp_path / "one", tmp_path / "two").records.to_pylist()
    assert row["changed"] == ["payload"]


def test_documents_of_packed_sequences(tmp_path, shardmill):
    for out, count in {"one": 30, "two": 31}.items():
        lines = [json.dumps({"id": n, "text": f"document number {n} " * 9}) for n in range(count)]
        (tmp_path / f"{out}.jsonl").write_text("\n".join(lines) + "\n")
        job = ("preprocess", "text", tmp_path / f"{out}.jsonl", "--out", tmp_path / out)
        packed = ("--train-tokenizer", "bpe:300", "--pack", 64) if out == "two" else ()
        done = shardmill(*job, "--id-column", "id", *packed)
        assert done.returncode == 0, done.stderr
    compared = compare_sets(tmp_path / "one", tmp_path / "two")
    (row,) = compared.records.to_pylist()
    assert (row["record_id"], row["what"]) == ("30", "added") and compared.counts()["same"] == 30


def test_the_command(write_corpus, begin_set, append_to, shardmill, tmp_path):
    root = tmp_path / "set"
    begin_set(write_corpus("old", OLD))
    append_to(write_corpus("new", {"a/later": 500, "c/last\u202e": 501}))
    done = shardmill("diff", root, "--generation-a", 0, "--to", tmp_path / "rows.parquet", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    counts = result["records"]
    assert (counts["same"], counts["added"], counts["removed"], counts["changed"]) == (20, 2, 0, 0)
    assert not result["equal"] and result["after"]["generation"] == 1
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table.schema == DIFFERENCES_SCHEMA and set(table["what"].to_pylist()) == {"added"}

    shown = shardmill("diff", root, "--generation-a", 0)
    assert shown.returncode == 0 and "c/last\\u202e.jpg" in shown.stdout
    assert all(len(line) <= 100 for line in shown.stdout.splitlines() if str(root) not in line)

    ids = shardmill("diff", root, "--generation-a", 0, "--ids", "added")
    assert ids.stdout.splitlines() == ["a/later.jpg", "c/last\u202e.jpg"]
    (tmp_path / "ids.txt").write_text(ids.stdout)
    done = shardmill("compact", root, "--remove", tmp_path / "ids.txt")
    assert done.returncode == 0, done.stderr
    begin_set(tmp_path / "old", "again")
    assert compare_sets(tmp_path / "again", root).counts()["same"] == 20

    same = json.loads(shardmill("diff", root, root, "--json").stdout)
    assert same["equal"] and same["records"]["same"] == 20


def test_mistakes(write_corpus, begin_set, shardmill, tmp_path):
    root = tmp_path / "set"
    begin_set(write_corpus("old", OLD))
    with pytest.raises(UsageError, match="has no generation 3"):
        compare_sets(root, root, 3)
    for arguments, code, message in (
        ((root,), 2, "Name another set"),
        ((root, tmp_path / "none"), 3, "no directory"),
        ((root, root, "--to", root / "rows.parquet"), 2, "is in a set"),
    ):
        done = shardmill("diff", *arguments)
        assert (done.returncode, done.stdout) == (code, "") and message in done.stderr
    begin_set(write_corpus("new", NEW), "other")
    manifest = load_manifest(root)
    for split in manifest.splits:
        (root / manifest.index_file(split)).write_bytes(b"ARROW1 is not all")
    with pytest.raises(DamageError, match="is not a whole Arrow file"):
        compare_sets(root, tmp_path / "other")
