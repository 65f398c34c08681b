"""What makes a set unfit for its use is said once, in numbers, with what to do."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs import TextOptions, append, bounds, preprocess
from beam_jobs.set_warnings import set_warnings
from beam_jobs.stages import listing_file
from beam_jobs.stages.listing_file import join_endings
from shard_format import load_build, load_manifest


@pytest.fixture
def warnings_of(tmp_path):
    """Builds a set of JSON Lines by split, and returns its warnings."""

    def run(splits, **options):
        folder = tmp_path / "corpus"
        for split, rows in splits.items():
            (folder / split).mkdir(parents=True)
            (folder / split / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
        given = {"split": "folders", "label_column": "label"} | options
        out = str(tmp_path / "set")
        report = preprocess(
            TextOptions((str(folder),), out, workers=1, no_report=True, dedup="off", **given)
        )
        return report.summary()["warnings"]

    return run


def rows(labels, **further):
    return [{"text": f"Words of {n}", "label": one} | further for n, one in enumerate(labels)]


def test_classes_that_training_lacks(warnings_of):
    names = [f"n{number:03d}" for number in range(300)]
    (warning,) = warnings_of({"train": rows(names[:3]), "test": rows(names[:103])})
    assert warning == (
        "100 of 103 classes have no record in split 'train' ('n003', 'n004', 'n005', ...), so no "
        "model learns them; of their records 'test' has 100. Merge classes of a few records or "
        "leave them out, or correct where labels or splits come from."
    )


def test_splits_that_lack_classes(warnings_of):
    warnings = warnings_of({"train": rows("aabbcc"), "val": rows("a"), "test": rows("abc")})
    assert warnings == [
        "Split 'validation' has no record of 2 of 3 classes ('b', 'c'): scores there leave these "
        "classes out. Add records of these classes to it."
    ]


def test_fractions_have_other_advice(warnings_of):
    labels = [f"n{number}" for number in range(40)] * 2
    warnings = warnings_of({"all": rows(labels)}, split="train=0.9,test=0.1")
    assert warnings[-1].endswith("Use --stratify, larger fractions or fewer splits.")


def test_one_class(warnings_of):
    (warning,) = warnings_of({"train": rows("aaa"), "test": rows("a")})
    assert warning.startswith("4 records and one class, 'a': there is nothing to tell apart.")


def test_several_labels(warnings_of):
    """One class is enough where a record may have none."""
    assert warnings_of({"train": rows([["a"], [], ["a"]])}, multi_label=True) == []


def test_a_further_label_has_its_name(warnings_of):
    data = {"train": rows("ab", side="left"), "test": rows("ab", side="left")}
    (warning,) = warnings_of(data, label_column="label,side")
    assert warning.startswith("4 records and one class of 'side', 'left': ")


def test_columns_that_are_empty_everywhere(warnings_of):
    data = {"train": [*rows("ab", who="", where=""), *rows("c", who=None, where="here", year=1)]}
    data["train"] = [{"year": 0} | row for row in data["train"]]
    warnings = warnings_of(data, keep_columns="who,where,year:int64")
    assert warnings == [
        "--keep-columns who: empty in each of 3 records. Correct the name, or leave it out."
    ]


@given(counts=st.lists(st.dictionaries(st.text(max_size=2), st.integers(1, 9))))
def test_endings_are_counted_together(counts):
    total = sum(map(Counter, counts), Counter())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(listing_file, "_MOST_ENDINGS", 1 << 20)
        assert join_endings(counts) == total
        patched.setattr(listing_file, "_MOST_ENDINGS", 3)
        joined = join_endings(counts)
    assert sum(joined.values()) == total.total()
    assert len(joined) <= 4 and all(joined[one] <= total[one] for one in {*joined} - {".*"})


@pytest.mark.parametrize("files", [10**6, 20], ids=["at once", "in pieces"])
def test_endings_that_are_rare(tmp_path, monkeypatch, files):
    monkeypatch.setattr(bounds, "LISTED_FILES", files)
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.html").write_text(f"<html><body><p>Page {number}</p></body></html>")
        (folder / f"{number}.md").write_text(f"Readme {number}")
    for number in range(3):
        (folder / f"test{number}.py").write_text(f"print({number})")
    options = {"no_labels": True, "workers": 1, "no_report": True, "split": "train=1"}
    report = preprocess(TextOptions((str(folder),), str(tmp_path / "set"), **options))
    assert report.summary()["warnings"] == [
        "3 of 123 files have endings that are rare here and of no format of documents (3 .py); "
        "they were read as plain text. Leave them out with --exclude '*.py' if they do not belong "
        "to it."
    ]
    for path in folder.glob("*[!y]"):
        path.unlink()
    report = preprocess(TextOptions((str(folder),), str(tmp_path / "code"), **options))
    assert report.summary()["warnings"] == []


def test_they_are_those_of_all_generations(warnings_of, tmp_path, shardmill):
    assert len(warnings_of({"train": rows("ab"), "test": rows("a")})) == 1
    more = tmp_path / "more"
    (more / "test").mkdir(parents=True)
    (more / "test" / "b.jsonl").write_text("\n".join(map(json.dumps, rows("bbc"))))
    options = {"split": "folders", "label_column": "label", "dedup": "off"}
    job = TextOptions((str(more),), str(tmp_path / "set"), append=True, **options)
    (warning,) = append(job).summary()["warnings"]
    assert warning.startswith("1 of 3 classes have no record in split 'train' ('c')")
    out = tmp_path / "set"
    assert set_warnings(load_manifest(out), load_build(out)) == [warning]
    assert json.loads(shardmill("inspect", out, "--json").stdout)["warnings"] == [warning]
    shown = " ".join(shardmill("inspect", out).stdout.split())
    assert f"warning: {warning}" in shown
    assert "Warning: " in (out / "report.html").read_text()
