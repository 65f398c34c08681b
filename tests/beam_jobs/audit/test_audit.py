"""Planted faults are found, each by its check and no other record, in sets of any kind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
import simplejpeg

import beam_jobs.audit.measuring as measuring
from beam_jobs.audit.auditing import audit
from beam_jobs.audit.checks import CHECKS
from beam_jobs.audit.output import PAGE, TABLE, list_of, output_folder, write_audit
from beam_jobs.record_ids import read_ids
from foundation.errors import ShardSetError, UsageError
from foundation.storage import Url
from shard_format import load_manifest, open_index

SIDE = 48
HOSTILE = '<b>"&\u202e'  # a class


def _photo(seed: int) -> np.ndarray:
    """Blocks and noise: sharp, of middle brightness, and unlike all others."""
    generator = np.random.default_rng(seed)
    blocks = generator.integers(30, 220, (3, 4, 3), np.uint8)
    large = cv2.resize(blocks, (SIDE * 4 // 3, SIDE), interpolation=cv2.INTER_CUBIC)
    noise = generator.integers(-12, 13, large.shape)
    return np.clip(large + noise, 0, 255).astype(np.uint8)


PLANTED = {
    "blurred": lambda pixels: cv2.GaussianBlur(pixels, (0, 0), 2.5),
    "dark": lambda pixels: (pixels * 0.15).astype(np.uint8),
    "overexposed": lambda pixels: np.where(pixels[..., :1] > 125, 255, 248).repeat(3, 2),
    "blank": lambda pixels: np.full_like(pixels, 130),
    "odd-shape": lambda pixels: np.ascontiguousarray(pixels[:, : SIDE // 4]),
    "odd-size": lambda pixels: np.tile(pixels, (12, 12, 1)),
}


@pytest.fixture
def planted(tmp_path):
    """A corpus in two splits, and by check the ids of what was planted."""
    root, ids = tmp_path / "corpus", {name: set() for name in (*PLANTED, "across-splits")}

    def write(name, pixels, quality=95):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels, np.uint8), quality))

    for number in range(60):
        split, label = ("train", "test")[number % 3 == 2], ("hat", HOSTILE)[number % 2]
        write(f"{split}/{label}/{number:03d}.jpg", _photo(number))
    for number, (check, change) in enumerate(PLANTED.items(), 100):
        name = f"train/hat/{check}.jpg"
        write(name, change(_photo(number)))
        ids[check].add(name)
    for number in (0, 12):
        write(f"test/hat/copy{number}.jpg", _photo(number), quality=60)
        ids["across-splits"].add(f"test/hat/copy{number}.jpg")
    return root, ids


def _records(result):
    return {
        name: set(rows["record_id"].drop_null().to_pylist())
        for name, rows in result.findings.items()
    }


def _build(build, source, name="set", **options):
    build(source, name, **{"resize": f"shorter:{SIDE}", "dedup": "off", **options})


def test_what_was_planted_is_found_and_nothing_else(planted, build, tmp_path):
    source, ids = planted
    _build(build, source, num_shards=3)
    result = audit(tmp_path / "set", {"outlier": None})
    nothing = {name: set() for name in ("damaged", "leak", "constant", "similar-classes")}
    assert _records(result) == ids | nothing
    assert result.read == 68 and "odd-language" in result.not_applicable
    (row,) = result.findings["blurred"].to_pylist()
    assert (row["split"], row["label"], row["threshold"]) == ("train", "hat", 0.01)
    copies = {row["record_id"]: row for row in result.findings["across-splits"].to_pylist()}
    assert copies["test/hat/copy12.jpg"]["other"] == "train/hat/012.jpg"
    assert copies["test/hat/copy12.jpg"]["other_split"] == "train"
    assert all(0.9 <= row["value"] <= 1 for row in copies.values())


def test_thresholds_are_those_that_are_given(planted, build, tmp_path):
    _build(build, planted[0])
    every = audit(tmp_path / "set", {"dark": 1.1, "blurred": 0})
    assert len(every.findings["dark"]) == 68 and not len(every.findings["blurred"])
    values = every.findings["dark"]["value"].to_numpy()
    assert (np.diff(values) >= 0).all()  # the worst first
    assert "blank" not in audit(tmp_path / "set", {"blank": None}).findings
    with pytest.raises(UsageError, match=r"No check is named 'blured'. Did you mean 'blurred'"):
        audit(tmp_path / "set", {"blured": 1})


def test_the_index_is_enough_where_it_has_everything(planted, build, tmp_path):
    source, ids = planted
    _build(build, source)
    _build(build, source, "scored", score="measures", dedup="near")
    read, known = audit(tmp_path / "set"), audit(tmp_path / "scored")
    assert (read.read, known.read) == (68, 0) and "damaged" in known.not_applicable
    dropped = ids["across-splits"]
    assert _records(known)["across-splits"] == set()  # the build has left one of each pair out
    for name in ("blurred", "dark", "overexposed", "blank", "odd-shape"):
        assert _records(known)[name] - dropped == _records(read)[name] - dropped
    near = audit(tmp_path / "scored", {"across-splits": 0.2})
    ids_of_set = set(_ids(tmp_path / "scored"))
    assert set(near.findings["across-splits"]["record_id"].to_pylist()) <= ids_of_set


def _ids(root):
    manifest = load_manifest(root)
    return [
        name
        for split in manifest.splits
        for name in open_index(root / manifest.index_file(split))["record_id"].to_pylist()
    ]


def test_processes_find_what_threads_find(planted, build, tmp_path, monkeypatch):
    _build(build, planted[0], num_shards=4)
    first = audit(tmp_path / "set", workers=1)
    monkeypatch.setattr(measuring, "should_use_processes", lambda *arguments: True)
    assert audit(tmp_path / "set", workers=2).table() == first.table()


def test_a_damaged_record_is_a_finding(planted, build, tmp_path):
    _build(build, planted[0], num_shards=2)
    root = tmp_path / "set"
    manifest = load_manifest(root)
    shards = manifest.splits["train"].shards
    rows = open_index(root / manifest.index_file("train")).to_pylist()
    (root / shards[1].file).unlink()
    lost = {row["record_id"] for row in rows if row["shard"] == 1}
    for row in rows[:2]:
        data = bytearray((root / shards[0].file).read_bytes())
        data[row["offset"] + row["length"] // 2] ^= 1
        (root / shards[0].file).write_bytes(data)
        lost.add(row["record_id"])
    result = audit(root)
    assert _records(result)["damaged"] == lost
    assert not lost & set().union(
        *(ids for name, ids in _records(result).items() if name not in ("damaged", "odd-size"))
    )
    write_audit(result, tmp_path / "out", [])
    assert read_ids(list_of(tmp_path / "out", "damaged")) == lost


def test_the_files_of_an_audit(planted, build, tmp_path):
    source, ids = planted
    _build(build, source)
    out = tmp_path / "out"
    write_audit(audit(tmp_path / "set"), out, [f"a remark {HOSTILE}"])
    for name in PLANTED:
        assert read_ids(list_of(out, name)) == ids[name]
    table = pq.read_table(out / TABLE)
    assert set(table["finding"].to_pylist()) >= ids.keys()
    page = (out / PAGE).read_text()
    assert "<b>" not in page and "\u202e" not in page and "<script" not in page
    assert re.findall("<h1>.*?</h1>", page) and page.count('<img src="data:') > 10
    assert all(f'alt="{name}"' in page for name in ids["dark"])
    assert all(f'<section id="{name}">' in page for name in ids)
    write_audit(audit(tmp_path / "set", {"dark": 0.0}), out, [])
    assert not list_of(out, "dark").exists()  # else good records would be removed by it


def test_the_output_is_not_in_the_set(tmp_path):
    with pytest.raises(UsageError, match="overlap"):
        output_folder(tmp_path / "set", tmp_path / "set" / "audit")
    assert output_folder(tmp_path / "set", None) == tmp_path / "set-audit"
    assert output_folder(Url("memory://bucket/set"), None) == Path("set-audit")


def test_a_set_in_a_bucket(planted, build, tmp_path, memory):
    _build(build, planted[0])
    here = audit(tmp_path / "set")
    there = audit(memory.copy(tmp_path / "set", "bucket/set"))
    assert there.table() == here.table()


def test_texts(tmp_path, shardmill):
    words = "the cat sat near an old red house while seven small birds flew over wide green hills"
    generator = np.random.default_rng(3)
    labels, sites = ["spam", "ham", "egg"], {"spam": "a.com", "ham": "b.com", "egg": "c.com"}
    rows = []
    for number in range(200):
        label = labels[number % 3]
        text = " ".join(generator.choice(words.split(), 30))
        split = "test" if number % 4 == 3 else "train"
        own = {"text": text, "label": label, "site": sites[label], "split": split}
        rows.append(own | {"id": str(number), "year": 2024, "lucky": int(generator.integers(9))})
    rows[0]["text"] = "Dieser Satz steht auf Deutsch zwischen lauter englischen Texten. " * 3
    rows[7]["text"] = rows[4]["text"].upper() + " !"
    rows[9]["text"] = rows[9]["text"] * 500
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = shardmill(
        *("preprocess", "text", tmp_path / "texts.jsonl", "--out", tmp_path / "set"),
        *(
            "--text-column",
            "text",
            "--label-column",
            "label",
            "--id-column",
            "id",
            "--dedup",
            "off",
        ),
        *("--keep-columns", "site,year:int64,lucky:int64", "--split", "column:split"),
    )
    assert done.returncode == 0, done.stderr
    result = audit(tmp_path / "set")
    assert _records(result)["odd-language"] == {"0"} and _records(result)["odd-size"] == {"9"}
    assert "9" in _records(result)["outlier"]
    assert result.thresholds["across-splits"] == 0.8  # of texts
    (copy,) = result.findings["across-splits"].to_pylist()
    assert (copy["record_id"], copy["other"]) == ("7", "4")
    (leak,) = result.findings["leak"].to_pylist()
    assert (leak["column"], leak["value"], leak["record_id"]) == ("site", 1.0, None)
    (constant,) = result.findings["constant"].to_pylist()
    assert (constant["column"], constant["other"]) == ("year", "2024")
    write_audit(result, tmp_path / "out", [])
    assert "Dieser Satz" in (tmp_path / "out" / PAGE).read_text()


def test_folders_of_the_source_that_give_the_label_away(make_images, build, tmp_path):
    """The folder that a label is taken from does not count, nor do those below it."""
    source = make_images(40, classes=2)
    build(source, "plain", dedup="off")
    assert not len(audit(tmp_path / "plain").findings["leak"])
    names = sorted(str(path.relative_to(source)) for path in source.rglob("*.jpg"))
    lines = [f"{name},{('day', 'night')['1/' in name]}" for name in names]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *lines]))
    build(source, "labelled", labels=str(tmp_path / "labels.csv"), dedup="off")
    (leak,) = audit(tmp_path / "labelled").findings["leak"].to_pylist()
    assert leak["column"] == "folder 1 of the source"


def test_records_of_any_shape(any_set, tmp_path):
    result = audit(any_set)
    assert "constant" in result.findings and result.read == 40
    write_audit(result, tmp_path / "out", [])


def test_unlabelled_repeated_and_several_labels(make_images, build, tmp_path):
    source = make_images(30)
    build(source, "none", no_labels=True)
    assert {"leak", "similar-classes"} <= set(audit(tmp_path / "none").not_applicable)
    build(source, "again", balance="oversample", split="train=0.9,test=0.1")
    assert _records(audit(tmp_path / "again"))["across-splits"] == set()
    table = audit(tmp_path / "again", {"dark": 2.0}).findings["dark"]
    assert len(set(table["record_id"].to_pylist())) == len(table)
    names = sorted(str(path.relative_to(source)) for path in source.rglob("*.jpg"))
    lines = [f"{name},{('a|b', 'b', '')[n % 3]}" for n, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *lines]))
    build(source, "several", labels=str(tmp_path / "labels.csv"), multi_label=True)
    rows = audit(tmp_path / "several", {"dark": 2.0}).findings["dark"]["label"].to_pylist()
    assert set(rows) >= {"a, b", "b"}


def test_what_cannot_be_audited(tmp_path, shardmill):
    with pytest.raises(ShardSetError, match="no directory"):
        audit(tmp_path / "nothing")
    (tmp_path / "text.jsonl").write_text('{"text": "some words of a text"}\n' * 30)
    job = ("preprocess", "text", tmp_path / "text.jsonl", "--out", tmp_path / "set", "--no-labels")
    done = shardmill(*job, "--dedup", "off", "--train-tokenizer", "bpe:300", "--pack", 16)
    assert done.returncode == 0, done.stderr
    with pytest.raises(UsageError, match="built without --pack"):
        audit(tmp_path / "set")


def test_every_check_says_what_it_finds():
    for check in CHECKS.values():
        assert check.meaning.format(0.5).endswith(".") and check.title[0].isupper()
