"""Reading a set that was appended to: any of its generations, and states of older ones."""

from __future__ import annotations

import pickle

import pytest

import reader
from shard_format import UsageError
from tests.fixtures.proofs import proofs

OLD = {f"{'ab'[n % 2]}/old{n}": n for n in range(12)}
NEW = {f"{'abc'[n % 3]}/new{n}": 100 + n for n in range(6)}
OPTIONS = {"batch_size": 2, "image_size": 8, "seed": 1}


def _ids(stream):
    return [tuple(labels.numpy().tolist()) for _, labels in stream.dataset]


@pytest.fixture
def appended(write_corpus, begin_set, append_to, tmp_path):
    """A set of 12 records, and what opened it before 6 were appended."""
    begin_set(write_corpus("old", OLD), split="train=1", resize="none")
    before = reader.load(tmp_path / "set", epochs=2, **OPTIONS)
    rows = reader.random_access(tmp_path / "set")
    state, pickled = before.state(3), pickle.dumps(rows)
    append_to(write_corpus("new", NEW), split="train=1", resize="none")
    return tmp_path / "set", before, rows, state, pickled


def test_open_readers_are_not_disturbed(appended):
    root, before, rows, _, pickled = appended
    newest = reader.load(root, epochs=1, **OPTIONS)
    assert (newest.info.records, newest.info.class_names) == (18, ("a", "b", "c"))
    assert len(_ids(newest)) == 9
    assert len(_ids(before)) == 12
    again = pickle.loads(pickled)  # in another process, say
    assert len(again) == len(rows) == 12 and again[11]["id"] == rows[11]["id"]
    every = reader.random_access(root)
    assert [every[n]["id"] for n in range(12)] == [row["id"] for row in rows]
    assert len(reader.random_access(root, generation=0)) == 12


def test_a_state_continues_on_its_generation(appended):
    root, before, _, state, _ = appended
    expected = _ids(before)[3:]
    with pytest.raises(UsageError, match=r"generation 0 of the set, .* Pass generation=0"):
        reader.load(root, epochs=2, state=state, **OPTIONS)
    resumed = reader.load(root, epochs=2, state=state, generation=0, **OPTIONS)
    assert _ids(resumed) == expected


def test_a_generation_that_is_not_there(appended):
    with pytest.raises(UsageError, match="has no generation 2: its newest is 1"):
        reader.load(appended[0], generation=2, **OPTIONS)


@pytest.mark.parametrize("stage", [*proofs("stored"), "decoded"])
def test_caches_hold_shards_of_all_generations(appended, tmp_path, stage):
    options = {"cache": "disk", "cache_stage": stage, "cache_dir": tmp_path / "cache"}
    plain = _ids(reader.load(appended[0], epochs=1, cache="off", **OPTIONS))
    for _ in range(2):
        assert _ids(reader.load(appended[0], epochs=1, **options, **OPTIONS)) == plain


def test_offsets_for_other_readers(appended):
    exported = reader.export_index(appended[0])
    assert exported.records == 18
    assert {path.name for path in exported.files["train"]} == {
        "images-train.tfrecord-00000-of-00001.idx"
    }
    assert len(exported.files["train"]) == 2
