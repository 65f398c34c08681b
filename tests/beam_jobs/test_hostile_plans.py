"""Plans, splits, balance and quarantine: what went wrong once, found by trying to break them."""

from __future__ import annotations

import numpy as np
import pytest

from beam_jobs.option_values import parse_splits
from beam_jobs.planning.classes import sorted_names
from beam_jobs.planning.recipes import RecipeWriter
from beam_jobs.planning.splits import Assignment
from beam_jobs.storage import Workspace
from shard_format import InputError, UsageError


def test_more_splits_than_a_byte_can_tell_apart():
    """With 200 of them, a third of the records were in none, and nothing said so."""
    assert len(parse_splits(",".join(f"s{n}={1 / 127}" for n in range(127)))) == 127
    with pytest.raises(UsageError, match="at most 127 splits, got 200"):
        parse_splits(",".join(f"s{n}=0.005" for n in range(200)))


def test_class_names_of_more_digits_than_python_reads():
    long = "1" * 5000
    assert sorted_names({long, "10", "9", "0"}) == ["0", "9", "10", long]
    assert sorted_names({long, "01", "9"}) == sorted({long, "01", "9"})


@pytest.mark.parametrize(
    ("names", "training"),
    [(["test", "fit"], "fit"), (["val", "test", "train"], "train"), (["a", "b"], "a")],
)
def test_no_evaluation_split_is_trained_on(sidecars_of_one, tmp_path, names, training):
    """With test=0.2,fit=0.8 the test split was balanced, and pixels were measured on it."""
    assignment = Assignment(tmp_path / "splits.npy", sidecars_of_one)
    assignment.names = names
    assert names[assignment.training] == training


@pytest.fixture
def sidecars_of_one():
    class One:
        begins = np.array([0, 1])
        records = 1

    return One()


def test_kept_duplicates_in_two_given_splits_are_told(pictures, build, tmp_path):
    """They were left on both sides, a leak, though "keep" promises all of them in one split."""
    corpus = tmp_path / "given"
    for split in ("train", "test"):
        pictures(4, classes=2, name=f"given/{split}")
    with pytest.raises(InputError, match=r"4 clusters in two, .* in test and .* in train"):
        build(corpus, split="folders", duplicates="keep")
    ledger = build(corpus, "dropped", split="folders").manifest.ledger
    assert (ledger.kept, ledger.duplicates) == (4, 4)


def test_two_copies_of_a_record_are_two_recipes(tmp_path):
    """They differ in their keys alone, which the index has."""
    workspace = Workspace(tmp_path, None)
    workspace.create()
    zero, found = np.zeros(1, np.int64), []
    for key in (1, 2):
        writer = RecipeWriter(workspace, "images", {"train": 1}, ["unit"], b"")
        writer.append("train", zero, zero, zero, np.array([key], np.uint64))
        found += writer.finish()
    assert found[0].recipe_key != found[1].recipe_key


def test_other_fractions_find_the_staged_units(pictures, build, tmp_path):
    corpus, staging = pictures(), str(tmp_path / "staging")
    build(corpus, "one", staging=staging)
    report = build(corpus, "two", staging=staging, split="train=0.5,test=0.5")
    assert report.build["units_reused"] == report.build["units"]
    fresh = build(corpus, "fresh", split="train=0.5,test=0.5")
    assert fresh.manifest.root_hash == report.manifest.root_hash


def test_copies_are_told_with_the_ledger(pictures, build, tmp_path, shardmill):
    """The splits held more than was kept, without a word."""
    corpus = pictures(9, classes=1)
    lone = corpus / "lone"
    lone.mkdir()
    (corpus / "class0" / "000.jpg").rename(lone / "000.jpg")
    manifest = build(corpus, balance="oversample", split="train=1").manifest
    assert manifest.ledger.repeated == 7
    done = shardmill("inspect", str(tmp_path / "set"))
    assert "repeated to balance        7" in done.stdout
