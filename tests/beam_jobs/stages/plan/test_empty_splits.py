"""A split without records is a warning at the end of the output, with its cause."""

from __future__ import annotations

import json

import pytest

from beam_jobs import TextOptions, preprocess


@pytest.fixture
def warnings_of(tmp_path):
    """Builds a set of JSON Lines by file name, and returns its warnings."""

    def build(files, **options):
        for name, rows in files.items():
            path = tmp_path / "corpus" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        values = {"clean": "none", "workers": 1, "no_report": True, "label_column": "label"}
        out = str(tmp_path / "set")
        report = preprocess(TextOptions((str(tmp_path / "corpus"),), out, **values | options))
        own = report.build["warnings"]
        assert report.summary()["warnings"][: len(own)] == own
        return own

    return build


def rows(count, classes=1, **further):
    return [
        {"text": f"word {number} of {further}", "label": f"c{number % classes}", **further}
        for number in range(count)
    ]


def test_stratify_with_small_classes(warnings_of):
    (warning,) = warnings_of({"a.jsonl": rows(24, 12)}, stratify=True, split="train=0.8,test=0.2")
    assert warning == (
        "Split 'test' is empty: --stratify gives it 0.2 of each class, rounded to records, and "
        "the largest of 12 classes has 2 records. Use fewer splits, a larger fraction, or leave "
        "out --stratify."
    )


def test_stratify_with_one_large_group(warnings_of):
    warnings = warnings_of(
        {"a.jsonl": rows(20, site="x")}, stratify=True, group_by="site", split="train=0.8,test=0.2"
    )
    (warning,) = warnings
    assert "there are 20 records; records that stay together make 1 group. Use" in warning


def test_few_records(warnings_of):
    (warning,) = warnings_of({"a.jsonl": rows(3)}, split="train=0.999999,rare=0.000001")
    assert warning == (
        "Split 'rare' is empty: records are assigned by a hash, and none of 3 records falls into "
        "its fraction of 1e-06. Use fewer splits, a larger fraction, or more records."
    )


def test_one_large_group(warnings_of):
    (warning,) = warnings_of(
        {"a.jsonl": rows(9, site="x")}, group_by="site", split="train=0.5,test=0.5"
    )
    assert "--group-by site makes 1 group of 9 records, and none of them falls into" in warning


def test_duplicates_that_are_kept_together(warnings_of):
    (warning,) = warnings_of(
        {"a.jsonl": rows(1) * 9}, duplicates="keep", split="train=0.5,test=0.5"
    )
    assert "--duplicates keep makes 1 group of 9 records" in warning


def test_a_given_split_that_only_repeats_another(warnings_of):
    files = {"train/a.jsonl": rows(4), "test/a.jsonl": rows(4)}
    (warning,) = warnings_of(files, split="folders")
    assert warning.startswith("Split 'train' is empty: 4 records of it can be used, but all are")


def test_a_given_split_of_which_nothing_can_be_used(warnings_of, tmp_path):
    files = {"train/a.jsonl": rows(4), "val/a.jsonl": rows(2, label=None)}
    (warning,) = warnings_of(files, split="folders")
    assert warning.startswith("Split 'validation' is empty: no file of it has a record")
    assert f"shardmill quarantine list {tmp_path / 'set'}" in warning


def test_a_split_whose_text_occurs_elsewhere(warnings_of):
    boilerplate = [{"text": "the same line", "label": "a"}, *rows(8)]
    boilerplate += [{"text": "the same line\nthe same line", "label": "a"}]
    assert warnings_of({"a.jsonl": boilerplate}, split="train=1", dedup_parts="lines") == []


def test_full_splits_and_empty_sets_have_no_warning(warnings_of):
    job = {"split": "train=0.9,test=0.1", "keep_empty": True}
    assert warnings_of({"a.jsonl": rows(3, label=None)}, **job) == []


def test_the_warning_is_the_last_that_is_read(warnings_of, tmp_path, shardmill):
    warnings_of({"a.jsonl": rows(3)}, split="train=0.999999,rare=0.000001")
    job = ("preprocess", "text", tmp_path / "corpus", "--out", tmp_path / "again")
    job += ("--split", "train=0.999999,rare=0.000001", "--no-report", "--clean", "none")
    lines = shardmill(*job).stdout.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("next "))
    assert lines[begin + 1].startswith("warning: Split 'rare' is empty: records are assigned")
    assert max(len(line) for line in lines[begin + 1 :]) <= 80
    summary = json.loads(shardmill(*job, "--json").stdout.splitlines()[-1])
    assert summary["warnings"][0].startswith("Split 'rare'") and summary["notes"] == []
    assert "warning: Split 'rare'" in shardmill("inspect", tmp_path / "again").stdout
