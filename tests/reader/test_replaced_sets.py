"""A set that is compacted while it is read: an error that says so, never other records."""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil

import pytest
import tensorflow as tf

import reader
from beam_jobs.generations.compact import compact
from reader.damage import naming_damage
from shard_format import SetReplacedError, load_manifest
from tests.fixtures.proofs import each_value_once

OLD = {f"{'ab'[n % 2]}/old{n}": n for n in range(12)}
NEW = {f"{'ab'[n % 2]}/new{n}": 100 + n for n in range(6)}
OPTIONS = {"batch_size": 2, "image_size": 8, "seed": 1, "features": ("id",), "epochs": 3}


@pytest.fixture
def appended(write_corpus, begin_set, append_to, tmp_path):
    begin_set(write_corpus("old", OLD), split="train=1", resize="none", num_shards=2)
    append_to(write_corpus("new", NEW), split="train=1", resize="none")
    return tmp_path / "set"


def _read(stream, after=lambda: None):
    """The ids of every batch; `after` is called behind the first one."""
    ids = []
    for inputs, _ in stream.numpy():
        ids.append(inputs["id"].tolist())
        if len(ids) == 1:
            after()
    return ids


@pytest.mark.parametrize(
    ("on_corrupt", "shuffle"), each_value_once(["raise", "skip"], ["full", "window", "off"])
)
def test_compaction_ends_a_stream_with_what_happened(appended, shuffle, on_corrupt, recwarn):
    # So many epochs that they are not all read ahead when the first batch is there.
    options = {**OPTIONS, "cache": "off", "shuffle": shuffle, "on_corrupt": on_corrupt}
    options |= {"epochs": 500}
    stream, before = reader.load(appended, **options), load_manifest(appended).root_hash
    with pytest.raises(SetReplacedError, match=rf"compacted .* was {before} .* Open it again"):
        _read(stream, lambda: compact(appended))
    assert stream.skipped == 0
    again = _read(reader.load(appended, **{**options, "epochs": 1}))
    names = {f"{name}.jpg".encode() for name in {**OLD, **NEW}}
    assert set(itertools.chain(*again)) == names


def test_another_set_that_was_replaced_is_not_named(appended, tmp_path):
    """A stream of it was opened, and nobody reads it any more."""
    shutil.copytree(appended, tmp_path / "other")
    other = reader.load(tmp_path / "other", **OPTIONS, cache="off")
    stream = reader.load(appended, **{**OPTIONS, "cache": "off", "epochs": 500})
    compact(tmp_path / "other")
    with pytest.raises(SetReplacedError, match=re.escape(f"{appended} was compacted")):
        _read(stream, lambda: compact(appended))
    assert other.skipped == 0


def test_an_append_does_not_end_a_stream(appended, write_corpus, append_to):
    options = {**OPTIONS, "cache": "off"}
    expected = _read(reader.load(appended, **options))
    more = write_corpus("more", {f"a/more{n}": 200 + n for n in range(5)})
    stream = reader.load(appended, **options)
    assert expected == _read(stream, lambda: append_to(more, split="train=1", resize="none"))


@pytest.mark.parametrize("cache", ["memory", "disk"])
def test_a_cache_gives_no_other_records(appended, cache, tmp_path):
    """Shards are copied, and the index is mapped when it is first needed."""
    options = {**OPTIONS, "cache": cache, "cache_dir": tmp_path / "cache"}
    expected = _read(reader.load(appended, **options))
    stream = reader.load(appended, **options)
    compact(appended)
    ids = []
    with contextlib.suppress(SetReplacedError):
        for inputs, _ in stream.numpy():
            ids.append(inputs["id"].tolist())
    assert ids == expected[: len(ids)]


def test_records_as_long_as_others_are_not_taken_for_them(appended):
    """Every offset of the old index is the begin of a whole record of the new shards."""
    stream = reader.load(appended, **{**OPTIONS, "cache": "off"})
    shards = [one.file for one in load_manifest(appended).splits["train"].shards]
    stored = {name: (appended / name).read_bytes() for name in shards}
    compact(appended)
    for name, content in stored.items():
        (appended / name).parent.mkdir(parents=True, exist_ok=True)
        (appended / name).write_bytes(content)  # not one byte is damaged
    with pytest.raises(SetReplacedError):
        _read(stream)


def test_the_reader_of_tensorflow_names_it_too(appended):
    """In graphs for other processes, whose errors name no set."""

    stream = reader.load(appended, **{**OPTIONS, "cache": "off"})
    records = stream.pipeline.windows.portable
    dataset = tf.data.Dataset.range(18).batch(9).map(records.read)
    compact(appended)
    with pytest.raises(SetReplacedError, match="was compacted or built again"), naming_damage():
        list(dataset)


def test_random_access_keeps_the_shards_that_are_open(appended):
    rows = reader.random_access(appended)
    expected = [rows[number]["id"] for number in range(18)]
    compact(appended)
    assert [rows[number]["id"] for number in range(18)] == expected
    fresh = reader.random_access(appended)
    assert sorted(fresh[number]["id"] for number in range(18)) == sorted(expected)


def test_random_access_opens_no_shard_of_another_set(appended):
    rows = reader.random_access(appended)
    compact(appended)
    with pytest.raises(SetReplacedError, match="Open it again"):
        for number in range(18):
            rows[number]
