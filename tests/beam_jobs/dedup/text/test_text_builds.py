"""Duplicates among documents, from files to shards."""

from __future__ import annotations

import collections
import json
import re
import shutil
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest

from beam_jobs import pipeline
from beam_jobs.options import TextOptions
from shard_format import UsageError, verify

BREAKS = {"lines": r"\n", "paragraphs": r"\n(?:[ \t]*\n)+"}


def fold(part):
    return " ".join(part.lower().split())


def long_parts(text, kind):
    parts = (fold(part) for part in re.split(BREAKS[kind], text))
    return [part for part in parts if part.count(" ") >= 4]


@pytest.fixture(scope="module")
def rows():
    """200 documents of 8 lines each, of which a third are taken from 40; some say nothing new."""
    generator = np.random.default_rng(5)
    common = [f"Line {number} stands on very many pages." for number in range(40)]
    short = ["}", "Yes.", "", "  "]
    made = []
    for number in range(200):
        lines = [f"line {at} of document {number} is its own" for at in range(4)]
        lines += generator.choice(common, 3).tolist() + [str(generator.choice(short))]
        if number % 20 == 0:
            lines = generator.choice(common, 5).tolist() + ["", " "]
        lines = [line.upper() if generator.random() < 0.2 else line for line in lines]
        breaks = generator.choice(["\n", "\n\n", "\n \n"], len(lines), p=[0.6, 0.2, 0.2])
        order = generator.permutation(len(lines))
        text = "".join(lines[at] + breaks[at] for at in order.tolist())
        made.append({"text": text, "label": f"c{number % 3}"})
    return made


@pytest.mark.parametrize("kind", ["lines", "paragraphs"])
def test_every_long_part_is_once(kind, rows, build_texts, texts_in):
    manifest, folder = build_texts(rows, dedup_parts=kind, split="train=0.7,test=0.3")
    kept = texts_in(folder)
    after = collections.Counter(
        part for texts in kept.values() for _, text in texts for part in long_parts(text, kind)
    )
    before = {part for row in rows for part in long_parts(row["text"], kind)}
    assert set(after) == before
    assert set(after.values()) == {1}
    ledger = manifest.ledger
    assert ledger.read == len(rows)
    assert ledger.kept == sum(map(len, kept.values()))
    assert ledger.duplicates == ledger.read - ledger.kept
    if kind == "lines":
        assert ledger.duplicates > 0  # some documents said nothing new
    assert verify(folder)[1] == []
    assert all(text.strip() for texts in kept.values() for _, text in texts)


def test_short_parts_stay(rows, build_texts, texts_in):
    _, folder = build_texts(rows, dedup_parts="lines")
    kept = dict(pair for texts in texts_in(folder).values() for pair in texts)
    _, whole = build_texts(rows, "whole", dedup="off")
    before = dict(pair for texts in texts_in(whole).values() for pair in texts)
    for record_id, text in kept.items():
        assert text.count("Yes.") == before[record_id].count("Yes.")


def test_what_evaluation_has_training_has_not(build_texts, texts_in):
    line = "One line of the test split and of every other."
    rows = [{"text": f"{line}\nand document {number}", "split": "train"} for number in range(8)]
    rows += [{"text": f"test document {number}\n{line}", "split": "test"} for number in range(2)]
    rows += [{"text": f"validation {number}\n{line}", "split": "validation"} for number in range(2)]
    by_seed = []
    for seed in (0, 1):
        _, folder = build_texts(
            rows, f"set{seed}", split="column:split", dedup_parts="lines", seed=seed
        )
        stands = {
            split: [record_id for record_id, text in texts if line in text]
            for split, texts in texts_in(folder).items()
        }
        assert stands["train"] == stands["validation"] == []
        assert len(stands["test"]) == 1
        by_seed.append(stands)
    assert by_seed[0] == by_seed[1]


def test_a_class_that_says_nothing_new_is_noted(build_texts):
    line = "All there is to say in so many words."
    rows = [{"text": f"{line}\n{number}", "label": "a"} for number in range(9)]
    rows += [{"text": f"{line}\n", "label": "b"}, {"text": f"\n{line}", "label": "b"}]
    manifest, _ = build_texts(
        rows, no_labels=False, label_column="label", dedup="off", dedup_parts="lines"
    )
    names = manifest.schema["label"].class_names
    assert manifest.ledger.kept in (9, 10)
    assert names == (("a",) if manifest.ledger.kept == 9 else ("a", "b"))


VARIANTS = {
    "near": {"dedup": "near"},
    "near-kept": {"dedup": "near", "duplicates": "keep", "split": "train=0.6,test=0.4"},
    "lines": {"dedup_parts": "lines", "split": "train=0.6,test=0.4"},
    "both": {
        "dedup": "near",
        "dedup_parts": "paragraphs",
        "no_labels": False,
        "label_column": "label",
        "num_shards": 3,
    },
    "oversampled": {
        "dedup_parts": "lines",
        "no_labels": False,
        "label_column": "label",
        "balance": "oversample",
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_same_bytes_however_the_work_is_done(variant, rows, random_texts, build_texts):
    rows = rows + [{"text": text, "label": "d"} for text in random_texts(150)]
    options = VARIANTS[variant]
    ways = [(1, None), (2, "4KiB")]
    built = [
        build_texts(rows, f"set{number}", workers=workers, unit_size=unit_size, **options)[0]
        for number, (workers, unit_size) in enumerate(ways)
    ]
    assert len({manifest.root_hash for manifest in built}) == 1
    assert built[0].ledger.kept > 100


def test_partitions_change_nothing(rows, build_texts, monkeypatch):
    whole, _ = build_texts(rows, dedup_parts="lines")
    monkeypatch.setattr(pipeline, "plan_shards", partial(pipeline.plan_shards, partition_rows=60))
    cut, _ = build_texts(rows, "cut", dedup_parts="lines")
    assert cut.root_hash == whole.root_hash


def test_near_duplicates_are_left_out_and_shown(random_texts, build_texts, texts_in):
    texts = random_texts(60, words=200)
    rows = [{"text": text, "label": "a"} for text in texts]
    copy = texts[0].replace("w1", "W1", 2)
    rows += [{"text": texts[0].upper() + "!", "label": "b"}, {"text": copy + "\n", "label": "a"}]
    manifest, folder = build_texts(rows, dedup="near", no_labels=False, label_column="label")
    table = pq.read_table(folder / "duplicates.parquet")
    assert manifest.ledger.duplicates == table["dropped"].to_pylist().count(True)
    shown = [row for row in table.to_pylist() if row["label"] != row["kept_label"]]
    assert len(shown) == 1
    assert shown[0]["kind"] == "near"
    assert shown[0]["similarity"] == 1  # but for punctuation
    assert shown[0]["conflict"]
    previews = [one.decode() for one in table["preview"].to_pylist()]
    assert all(len(one) == 500 for one in previews)


def test_a_preview_is_never_taken_for_a_image(build_texts, shardmill):
    text = "P3 1 1 255 255 0 0 # a picture for programs that look at bytes"
    _, folder = build_texts([{"text": text}, {"text": text + "!"}, {"text": "x"}], dedup="near")
    (preview,) = pq.read_table(folder / "duplicates.parquet")["preview"].to_pylist()
    assert preview.startswith(b"P3")
    assert shardmill("report", folder).returncode == 0
    assert "data:image" not in (folder / "report.html").read_text()


def test_another_threshold_uses_what_was_staged(random_texts, build_texts, tmp_path):
    rows = [{"text": text} for text in random_texts(80)]
    staging, counts = str(tmp_path / "staging"), []
    for threshold in (0.8, 0.5):
        manifest, folder = build_texts(
            rows, "set", dedup="near", near_threshold=threshold, staging=staging
        )
        counts.append(manifest.ledger.duplicates)
        build = json.loads((folder / "build.json").read_text())
        assert (build["units_reused"] > 0) is (threshold == 0.5)
        shutil.rmtree(folder)
    assert counts[1] >= counts[0] > 0


def test_parts_of_kept_duplicates_are_refused():
    with pytest.raises(UsageError, match="--dedup-parts lines"):
        TextOptions(sources=("a",), out="b", dedup_parts="lines", duplicates="keep")
