"""Records from Python: `RecordOptions(items=..., read=..., schema=...)`, and --from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import reader
from beam_jobs import RecordOptions, append, preprocess
from beam_jobs.corpus.python_records import _Names
from beam_jobs.corpus.record import Rejection
from beam_jobs.generations.compact import compact
from beam_jobs.staging.units import aimed_unit_items
from shard_format import InputError, UsageError, verify
from tests.beam_jobs.records import programs

MODULE = "tests.beam_jobs.records.programs"


def build(out: Path, **options: Any) -> Any:
    own: dict[str, Any] = {
        "out": str(out),
        "split": "train=1",
        "no_labels": True,
        "workers": 1,
        "no_report": True,
    }
    return preprocess(RecordOptions(**(own | options)))


def quarantined(out: Path) -> dict[str, tuple[str, str]]:
    files = sorted((out / "quarantine").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return {row["record_id"]: (row["reason"], row["detail"]) for row in rows}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("records") / "set"
    build(out, items=programs.episodes.items, read=programs.episodes.read, schema=programs.SCHEMA)
    return out


def test_a_set_has_what_the_program_reads(built: Path) -> None:
    assert not verify(built)[1]
    seen = {}
    for one in reader.random_access(built, "train"):
        seen[one["number"]] = one
    assert len(seen) == 36
    for number, one in seen.items():
        expected = programs.record(number // 10, number % 10)
        assert np.array_equal(one["steps"]["action"], expected["steps/action"])
        assert one["task"] == expected["task"] and np.array_equal(one["pose"], expected["pose"])
        assert one["id"] == f'{{"episode":{number // 10}}}/{number % 10:09d}'


def test_batches_are_dictionaries_of_all_features(built: Path) -> None:
    stream = reader.load(built, batch_size=4, epochs=1)
    batches = list(stream)
    assert len(batches) == 9 and stream.info.record_type == "record"
    for batch in batches:
        assert set(batch) == {"steps", "task", "number", "pose"}
        assert batch["pose"].shape == (4, 2, 2) and batch["pose"].dtype == np.float64
        lengths = [len(one) for one in batch["steps"]["action"]]
        assert lengths == [len(one) for one in batch["steps"]["reward"]]
        assert lengths == (batch["number"] % 10 + 1).tolist()
    (one, *_) = list(reader.load(built, batch_size=36, features=("number",), epochs=1))
    assert set(one) == {"number"} and len(set(one["number"].tolist())) == 36


def test_tensorflow_reads_the_same(built: Path) -> None:
    stream = reader.load(built, batch_size=6, epochs=1, shuffle="off")
    for tensors, arrays in zip(stream.dataset, stream, strict=True):
        assert isinstance(tensors["steps"]["action"], tf.RaggedTensor)
        assert np.array_equal(tensors["number"].numpy(), arrays["number"])
    padded = reader.load(built, batch_size=6, epochs=1, list_size=3).dataset.element_spec
    assert padded["steps"]["action"].shape.as_list() == [None, 3, 3]
    assert padded["steps"]["count"].dtype == tf.int64


def test_scalars_are_in_the_index(built: Path) -> None:
    stream = reader.load(built, batch_size=1, where="number > 100 and task != 'task 11.2'")
    assert stream.info.records == 4


def test_tfds_reads_nested_steps(built: Path) -> None:
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(built)
    example = next(iter(builder.as_dataset("train")))
    number = int(example["number"])
    assert example["steps"]["action"].shape == (number % 10 + 1, 3)
    assert example["pose"].dtype == tf.float64


def test_the_same_bytes_from_any_number_of_workers(built: Path, tmp_path: Path) -> None:
    expected = json.loads((built / "manifest.json").read_text())["root_hash"]
    done = build(tmp_path / "set", sources=f"{MODULE}:episodes", workers=2)
    assert done.manifest.root_hash == expected


_IDS = st.sampled_from([None, "a", "b", "000000000", "000000001", "0000000000", "2", "٣" * 9])


@given(st.lists(_IDS, max_size=8))
def test_an_id_is_that_of_one_record_of_an_item(ids: list[str | None]) -> None:
    names, taken = _Names(), set()
    for number, given_id in enumerate(ids):
        name = given_id or f"{number:09d}"
        try:
            names.add(name, number)
        except Rejection as rejection:
            assert rejection.reason == "repeated-id" and name in taken
        else:
            assert name not in taken
        taken.add(name)


def test_removing_a_record_whose_id_was_repeated(tmp_path: Path) -> None:
    done = build(tmp_path / "set", items=programs.one, read=programs.repeated, schema="value:int64")
    assert done.manifest.ledger.reasons == {"repeated-id": 2}
    (row,) = [one for one in reader.random_access(tmp_path / "set") if one["id"] == "one/a"]
    assert row["value"] == 0
    removed = compact(tmp_path / "set", frozenset({"one/a"}))
    assert removed.removed == 2 and removed.manifest.ledger.kept == 2  # the rejected one, too
    assert not verify(tmp_path / "set")[1]


@pytest.mark.parametrize(
    ("item", "reason", "detail"),
    [
        ("raises", "read-failed", "KeyError: 'a field'"),
        ("hangs", "too-slow", "takes more than 0.5 seconds"),
        ("list", "bad-record", "it is list, not a dictionary"),
        ("none", "bad-record", "it is NoneType"),
        ("missing", "missing-feature", "it has no 'text'"),
        ("unknown", "unknown-feature", "it has 'more'"),
        ("shape", "bad-value", "feature 'value' must be float32: [1.0] has the shape [1]"),
        ("type", "bad-value", "feature 'text' must be text: 7 is int, not a string"),
        ("label", "several-labels", "2 labels"),
    ],
)
def test_what_read_does_wrong_is_in_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item: str, reason: str, detail: str
) -> None:
    monkeypatch.setenv("SHARDMILL_TEST_ITEMS", f"fine,{item}")
    schema = {"value": "float32", "text": "text"}
    options = {"no_labels": False, "split": "train=1"} if item == "label" else {}
    if item == "label":
        monkeypatch.setenv("SHARDMILL_TEST_ITEMS", item)
        options["keep_empty"] = True
    done = build(
        *(tmp_path / "set",),
        items=programs.names,
        read=programs.odd,
        schema=schema,
        **{"read_limit": 0.5, **options},
    )
    ends = item in ("raises", "hangs")
    if item != "label":
        assert done.manifest.ledger.kept == 2 + (1 if ends else 2)
    wrong = quarantined(tmp_path / "set")[f"{item}/000000001"]
    assert wrong[0] == reason and detail in wrong[1]


def test_labels_groups_and_splits_are_keys_of_a_record(tmp_path: Path) -> None:
    done = build(
        tmp_path / "set",
        items=programs.keys,
        read=programs.keyed,
        schema="value:int64,at:int64",
        no_labels=False,
        split="column:split",
        dedup_by="value",
    )
    manifest = done.manifest
    assert manifest.ledger.kept == 30 and manifest.ledger.duplicates == 30
    assert {name: split.records for name, split in manifest.splits.items()} == {
        "train": 20,
        "test": 10,
    }
    assert manifest.schema["label"].class_names == ("even", "odd")
    inputs, labels = next(iter(reader.load(tmp_path / "set", batch_size=20)))
    assert set(inputs) == {"value", "at"} and (inputs["value"] % 2 == labels).all()
    ids = {one["id"] for one in reader.random_access(tmp_path / "set", "test")}
    assert ids <= {f"{number}/{half}" for number in range(0, 30, 3) for half in "ab"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"line {number}\nlast {number}\n")
    monkeypatch.setenv("SHARDMILL_TEST_FOLDER", str(folder))
    return folder


def test_only_items_that_changed_are_read_again(folder: Path, tmp_path: Path) -> None:
    own = {
        "items": programs.files,
        "read": programs.lines,
        "schema": {"line": "text"},
        "staging": str(tmp_path / "staged"),
        "unit_size": "1",
    }
    build(tmp_path / "one", **own)
    log = folder / "read.log"
    assert len(log.read_text().splitlines()) == 4
    log.unlink()
    (folder / "2.txt").write_text("another line\n")
    done = build(tmp_path / "two", **own)
    assert [Path(line).name for line in log.read_text().splitlines()] == ["2.txt"]
    assert done.manifest.ledger.kept == 7


def test_appending_reads_new_items_alone(folder: Path, tmp_path: Path) -> None:
    own = {"items": programs.files, "read": programs.lines, "schema": {"line": "text"}}
    build(tmp_path / "set", **own)
    (folder / "read.log").unlink()
    (folder / "9.txt").write_text("a new line\n")
    job = RecordOptions(out=str(tmp_path / "set"), workers=1, no_report=True, **own)
    append(job, given=[])
    assert [Path(line).name for line in (folder / "read.log").read_text().splitlines()] == ["9.txt"]
    assert len(reader.random_access(tmp_path / "set", "train")) == 9
    assert not verify(tmp_path / "set")[1]


def test_appending_records_of_another_schema_is_refused(folder: Path, tmp_path: Path) -> None:
    own = {"items": programs.files, "read": programs.lines}
    build(tmp_path / "set", schema={"line": "text"}, **own)
    job = RecordOptions(out=str(tmp_path / "set"), schema={"line": "bytes"}, workers=1, **own)
    with pytest.raises(UsageError, match="schema is line:bytes and line:text in the set"):
        append(job, given=[])


def test_few_items_are_units_of_their_own_and_many_are_not(built: Path) -> None:
    assert json.loads((built / "build.json").read_text())["units"] == 12
    assert aimed_unit_items(12) == aimed_unit_items(64) == 1
    assert aimed_unit_items(640) == 16
    assert aimed_unit_items(1_000_000) == 512


def test_an_item_that_is_listed_twice_is_read_once(tmp_path: Path) -> None:
    done = build(tmp_path / "set", items=programs.twice, read=programs.plain, schema="line:text")
    assert done.manifest.ledger.kept == 2
    assert done.manifest.ledger.reasons == {"repeated-item": 1}


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("failing", "failed: OSError: the catalogue is away"),
        ("no_json", "which is no value of JSON"),
    ],
)
def test_a_list_that_cannot_be_made_ends_the_job(tmp_path: Path, items: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(tmp_path / "set", items=f"{MODULE}:{items}", read=programs.plain, schema="line:text")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"items": lambda: [1]}, "cannot import"),
        ({"items": "nowhere:items"}, "cannot be imported|no module"),
        ({"read": f"{MODULE}:gone"}, "cannot be imported"),
        ({"items": ""}, "needs items, read and schema"),
        ({"schema": {"line": "flaot32"}}, "Did you mean 'float32'"),
        ({"schema": {"id": "text"}}, "shardmill writes itself"),
        ({"dedup_by": "lines"}, "--dedup-by names 'lines'"),
        ({"sources": f"{MODULE}:SCHEMA", "items": "", "read": "", "schema": ""}, "has no 'read'"),
    ],
)
def test_wrong_programs_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    own: dict[str, Any] = {"items": programs.twice, "read": programs.plain, "schema": "line:text"}
    with pytest.raises(UsageError, match=message):
        build(tmp_path / "set", **(own | options))


@pytest.mark.parametrize(("split", "kept"), [("train=1", 3), ("column:split", 2)])
def test_the_key_split_counts_where_splits_are_given(tmp_path: Path, split: str, kept: int) -> None:
    options: dict[str, Any] = {"items": programs.one, "read": programs.in_splits, "split": split}
    done = build(tmp_path / "set", schema="value:float32", **options)
    assert done.manifest.ledger.kept == kept


@pytest.mark.parametrize(
    ("read", "kept", "detail"),
    [
        (programs.ten_and_nothing, 10, "takes more than"),
        (programs.ten_and_the_end, 10, "SystemExit: 3"),
        (programs.large, 30, ""),
    ],
)
def test_what_was_read_before_an_end_is_kept(
    tmp_path: Path, read: Any, kept: int, detail: str
) -> None:
    done = build(
        *(tmp_path / "set",),
        items=programs.one,
        read=read,
        schema="value:float32,data:bytes",
        read_limit=2.0,
    )
    assert done.manifest.ledger.kept == kept
    assert [said for _, said in quarantined(tmp_path / "set").values() if detail in said] or (
        not detail
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": "table.csv"}, "--labels is for files"),
        ({"keep_columns": "x"}, "--keep-columns is for files"),
        ({"schema": [("a", "int64")]}, "schema is list"),
        ({"items": programs.Source().listed}, "a method of an object"),
        ({"sources": ":x", "items": "", "read": "", "schema": ""}, "cannot be imported"),
        ({"sources": ".m:x", "items": "", "read": "", "schema": ""}, "cannot be imported"),
        ({"schema": {"group": "int64"}}, "name of a feature"),
    ],
)
def test_mistakes_of_a_program_are_named(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    own: dict[str, Any] = {"items": programs.one, "read": programs.plain, "schema": "line:text"}
    with pytest.raises(UsageError, match=message):
        RecordOptions(out=str(tmp_path / "set"), **(own | options))


def test_a_program_that_lists_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lists no item"):
        build(tmp_path / "set", items=programs.nothing, read=programs.plain, schema="line:text")


def test_empty_lists_are_values(tmp_path: Path) -> None:
    """Of rows, of boxes and of lists of rows; a set has no order, and is refused."""
    schema = {"rows": "float32[*,4]", "boxes": "bbox[*]", "nested": "int64[*][*,2]"}
    build(tmp_path / "set", items=programs.one, read=programs.empty, schema=schema)
    (record,) = reader.random_access(tmp_path / "set", "train")
    assert record["rows"].shape == (0, 4) and record["boxes"].shape == (0, 4)
    assert [one.shape for one in record["nested"]] == [(0, 2)]
    ((reason, detail),) = quarantined(tmp_path / "set").values()
    assert reason == "bad-value" and "is not a" in detail


def test_functions_get_the_arguments(tmp_path: Path) -> None:
    build(
        *(tmp_path / "set",),
        items=programs.versions,
        read=programs.versioned,
        schema="line:text",
        arguments=("v2",),
    )
    (record,) = reader.random_access(tmp_path / "set", "train")
    assert record["line"] == "item of v2, v2"
