"""The columns of --keep-columns in an index, for `where` and `sample`, whatever wrote it."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import simplejpeg

import reader
from beam_jobs.generations.append import append
from beam_jobs.generations.compact import compact
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.repair import repair
from beam_jobs.run import preprocess
from shard_format import (
    IndexWriter,
    Manifest,
    UsageError,
    decode_example,
    file_info,
    index_parts,
    index_schema,
    load_manifest,
    naming,
    open_split_index,
    read_records,
    verify,
)
from shard_format.kept_columns import KEPT_TYPES, TEXT_BYTES, index_values
from tests.beam_jobs.stages.merge.builds import Build, forced_levels

KEPT = "score:float32,lang,votes:int64,group"
KINDS = {"score": "float32", "lang": "text", "votes": "int64", "group": "text"}
LANGUAGES = ("en", "de", None, "")
ROWS = [
    {
        "text": f"Text number {number} is not like the others",
        "label": f"c{number % 2}",
        "score": math.nan if number % 11 == 3 else number / 10,
        "lang": LANGUAGES[number % 4],
        "votes": number * 7 % 31,
        "group": f"é{'x' * (number * 9)}",  # a column of sidecars has this name too
    }
    for number in range(60)
]


def write_texts(folder: Path, rows: list[dict[str, Any]], name: str = "a") -> Path:
    """Documents in a Parquet file."""
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder


def write_images(folder: Path, rows: list[dict[str, Any]], name: str = "a") -> Path:
    """Images of noise in a Parquet file, with the same columns."""
    generator = np.random.default_rng(len(rows))
    pixels = generator.integers(0, 256, (len(rows), 20, 20, 3), np.uint8)
    images = [{"image": simplejpeg.encode_jpeg(one, 90)} for one in pixels]
    values = [{key: value for key, value in row.items() if key != "text"} for row in rows]
    folder.mkdir(exist_ok=True)
    table = pa.Table.from_pylist([one | row for one, row in zip(images, values, strict=True)])
    pq.write_table(table, folder / f"{name}.parquet")
    return folder


WRITE = {"text": write_texts, "image": write_images}
OPTIONS = {"text": TextOptions, "image": ImageOptions}


def job_of(kind: str, source: Path, out: Path, **values: Any) -> Any:
    own: dict[str, Any] = {"keep_columns": KEPT, "num_shards": 3, "split": "train=0.8,test=0.2"}
    own |= {"workers": 1, "no_report": True} | ({"resize": "none"} if kind == "image" else {})
    own |= {"clean": "none"} if kind == "text" else {}
    return OPTIONS[kind]((str(source),), str(out), **own | values)


def build(kind: str, source: Path, out: Path, **values: Any) -> Path:
    preprocess(job_of(kind, source, out, **values))
    return out


@pytest.fixture(scope="module", params=["text", "image"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def built(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(kind)
    return build(kind, WRITE[kind](folder / "source", ROWS), folder / "set")


def check_against_records(directory: Path) -> Manifest:
    """Checks the kept columns of every index against the records of the shards."""
    manifest, damages = verify(directory)
    assert not damages
    for split in manifest.splits:
        index = open_split_index(directory, manifest, split)
        shards = [directory / one.file for one in manifest.splits[split].shards]
        records = [decode_example(one) for shard in shards for _, one in read_records(shard)]
        ids = [one["id"][0].decode() for one in records]  # type: ignore[union-attr]
        assert index["record_id"].to_pylist() == ids
        for name, feature in KINDS.items():
            values = [one[name][0] for one in records]
            if feature == "text":
                values = [value.decode() for value in values]  # type: ignore[union-attr]
            expected = index_values(values, feature)  # type: ignore[arg-type]
            assert index[name].type == KEPT_TYPES[feature] == expected.type
            assert index[name].combine_chunks().equals(expected), name
    return manifest


def test_the_index_has_what_records_have(built: Path) -> None:
    manifest = check_against_records(built)
    index = open_split_index(built, manifest, "train")
    assert index.column_names[-4:] == list(KINDS)
    assert index["lang"].null_count > 10 and index["score"].null_count > 2
    longest = max(index["group"].to_pylist(), key=len)
    assert longest == "é" + "x" * (TEXT_BYTES - 2)
    assert pq.read_schema(built / "index/train.parquet").names[-4:] == list(KINDS)


def numbers(stream: Any, feature: str) -> list[Any]:
    inputs = (batch[0] if isinstance(batch, tuple) else batch for batch in stream)
    return [value for batch in inputs for value in np.asarray(batch[feature]).tolist()]


def read(directory: Path, **options: Any) -> Any:
    kind = load_manifest(directory).schema.record_type
    size: dict[str, Any] = {"image_size": 8} if kind == "image" else {}
    return reader.load(directory, batch_size=4, epochs=1, features=("votes",), **size | options)


@pytest.mark.parametrize(
    ("where", "same"),
    [
        (
            "score > 2.5 and lang == 'en'",
            (ds.field("score") > 2.5) & (ds.field("lang") == "en"),
        ),
        ("lang != 'en'", ds.field("lang") != "en"),
        ("not score > 2.5", ~(ds.field("score") > 2.5)),
        ("lang is None", ds.field("lang").is_null()),
        ("votes in [7, 14]", ds.field("votes").isin([7, 14])),
        ("label == 'c1' and votes * 2 < 30", (ds.field("label") == 1) & (ds.field("votes") < 15)),
    ],
)
def test_where_selects_what_arrow_selects(built: Path, where: str, same: Any) -> None:
    rows = ds.dataset(built / "index/train.arrow", format="arrow").to_table(filter=same)
    stream = read(built, where=where)
    assert stream.info.records == len(rows) > 0
    assert Counter(numbers(stream, "votes")) == Counter(rows["votes"].to_pylist())


def test_records_come_by_a_kept_weight(built: Path) -> None:
    weights = open_split_index(built, load_manifest(built), "train")["votes"].to_pylist()
    counts, times = Counter(numbers(read(built, sample="votes"), "votes")), Counter(weights)
    share = len(weights) / sum(weights)
    assert all(abs(counts[one] - one * share * times[one]) <= times[one] for one in times)
    with pytest.raises(UsageError, match="sample='score' is nan for record"):
        read(built, sample="score")
    assert read(built, sample="score", where="score >= 0").info.records > 30


def append_rows(kind: str, source: Path, out: Path) -> None:
    job = OPTIONS[kind]((str(source),), str(out), append=True, workers=1, no_report=True)
    append(job, given=set())


def test_what_is_appended_has_them_too(kind: str, tmp_path: Path) -> None:
    out = build(kind, WRITE[kind](tmp_path / "source", ROWS[:40]), tmp_path / "set")
    append_rows(kind, WRITE[kind](tmp_path / "more", ROWS[40:], "b"), out)
    manifest = check_against_records(out)
    assert manifest.newest == 1
    scores = open_split_index(out, manifest, "train")["score"].to_pylist()
    expected = sum(score is not None and score > 3 for score in scores)
    assert read(out, where="score > 3").info.records == expected > 10
    compact(out)
    compacted = check_against_records(out)
    assert compacted.newest == 0
    compacted_scores = open_split_index(out, compacted, "train")["score"].to_pylist()
    assert Counter(compacted_scores) == Counter(scores)
    lost = out / naming.index_file("train")
    content = lost.read_bytes()
    lost.write_bytes(content[:-1])
    assert repair(out).left == [] and lost.read_bytes() == content


def test_an_index_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_parts, "PART_ROWS", 12)
    out = build("text", write_texts(tmp_path / "source", ROWS[:40]), tmp_path / "set", num_shards=9)
    append_rows("text", write_texts(tmp_path / "more", ROWS[40:], "b"), out)
    manifest = check_against_records(out)
    assert len(manifest.index_parts("train")) > 3
    scores = open_split_index(out, manifest, "train")["score"].to_pylist()
    expected = sum(score is not None and score > 3 for score in scores)
    assert read(out, where="score > 3").info.records == expected > 10
    compact(out)
    assert len(check_against_records(out).index_parts("train")) > 2


@pytest.mark.parametrize("levels", [1, 2])
def test_merged_runs(built: Path, kind: str, levels: int, tmp_path: Path) -> None:
    options = job_of(kind, built.parent / "source", tmp_path / "set", unit_size="2KiB")
    Build(options, choose=forced_levels(levels)).run()
    assert check_against_records(tmp_path / "set").root_hash == load_manifest(built).root_hash


@pytest.mark.parametrize("file", ["index/train.arrow", "manifest.json"])
def test_a_repaired_index_is_the_one_that_was_built(kind: str, file: str, tmp_path: Path) -> None:
    out = build(kind, WRITE[kind](tmp_path / "source", ROWS), tmp_path / "set")
    names = ("index/train.arrow", "index/test.arrow", "manifest.json")
    content = {name: (out / name).read_bytes() for name in names}
    (out / file).write_bytes((out / file).read_bytes()[:-7])
    assert repair(out).left == []
    assert content == {name: (out / name).read_bytes() for name in names}


def rewrite_index(directory: Path, change: Any) -> None:
    """Writes another index of the training split, with a manifest that has its checksum."""
    manifest, name = load_manifest(directory), naming.index_file("train")
    table = change(open_split_index(directory, manifest, "train"))
    own = table.schema.names[len(index_schema([])) :]
    with IndexWriter(directory / name, [table.schema.field(one) for one in own]) as writer:
        writer.append(table)
    files = dict(manifest.files) | {name: file_info(directory / name)}
    other = dataclasses.replace(manifest, files=files)
    (directory / naming.MANIFEST).write_text(other.to_text())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda table: table.drop_columns(["votes"]),
            "must have the kept column 'votes', of int64",
        ),
        (
            lambda table: table.set_column(
                table.column_names.index("score"), "score", table["score"].cast(pa.float64())
            ),
            "must have the kept column 'score', of float",
        ),
        (
            lambda table: table.set_column(
                table.column_names.index("lang"), "lang", pa.array(["en"] * len(table))
            ),
            "has other values of 'lang' than records of text-train.tfrecord-00000-of-00003",
        ),
    ],
)
def test_verify_compares_with_records(change: Any, problem: str, tmp_path: Path) -> None:
    out = build("text", write_texts(tmp_path / "source", ROWS[:30]), tmp_path / "set")
    rewrite_index(out, change)
    assert problem in {one.problem for one in verify(out)[1] if one.file == "index/train.arrow"}


def without_columns(kind: str, source: Path, out: Path, **values: Any) -> Path:
    """A set as an earlier version has built it."""
    own = build(kind, source, out, kept_in_index=False, **values)
    build_json = own / naming.BUILD
    content = json.loads(build_json.read_text())
    content["options"].pop("kept_in_index")
    build_json.write_text(json.dumps(content))
    return own


def test_a_set_of_an_earlier_version(kind: str, tmp_path: Path) -> None:
    source = WRITE[kind](tmp_path / "source", ROWS[:40])
    out = without_columns(kind, source, tmp_path / "set")
    manifest = load_manifest(out)
    assert "kept_in_index" not in manifest.config
    assert not KINDS.keys() & set(open_split_index(out, manifest, "train").column_names)
    assert len(numbers(read(out), "votes")) == manifest.splits["train"].records
    with pytest.raises(
        UsageError,
        match=r"names 'score', which is no column .* Columns are shard, .* "
        r"Records have 'score', .* build it again: .* preprocess .* --like",
    ):
        read(out, where="score > 0.3")
    with pytest.raises(
        UsageError, match=r"'votes' is no column .* Columns are shard, .* Records have 'votes'"
    ):
        read(out, sample="votes")
    # What is appended has the columns of the set, and a repair those of the build.
    append_rows(kind, WRITE[kind](tmp_path / "more", ROWS[40:], "b"), out)
    index = out / load_manifest(out, 0).index_file("train")
    assert not KINDS.keys() & set(open_split_index(out, load_manifest(out), "train").column_names)
    content = index.read_bytes()
    index.write_bytes(content[:-1])
    assert repair(out).left == [] and index.read_bytes() == content


def test_the_same_command_builds_an_old_set_again(tmp_path: Path) -> None:
    from shard_format import InputError

    source = write_texts(tmp_path / "source", ROWS)
    out = without_columns("text", source, tmp_path / "set")
    before = load_manifest(out).root_hash
    with pytest.raises(InputError, match="code that stages records: of another version"):
        build("text", source, out)
    build("text", source, out, overwrite=True)
    assert check_against_records(out).root_hash != before


def test_a_staging_folder_of_an_earlier_version(tmp_path: Path) -> None:
    source, staging = write_texts(tmp_path / "source", ROWS), str(tmp_path / "staging")
    without_columns("text", source, tmp_path / "old", staging=staging)
    check_against_records(build("text", source, tmp_path / "set", staging=staging))


@pytest.mark.parametrize(
    ("kept", "values"),
    [
        ("words", {}),
        ("record_id", {}),
        ("source_encoding,votes:int64", {}),
        ("key:int64", {}),
        ("labels", {}),
        ("documents", {}),
        ("language", {"clean": "language"}),
        ("label.other", {"label_column": "label,other"}),
    ],
)
def test_names_of_other_columns_are_refused(
    kept: str, values: dict[str, Any], tmp_path: Path
) -> None:
    source = write_texts(tmp_path / "source", ROWS[:4])
    name = kept.partition(",")[0].partition(":")[0]
    with pytest.raises(UsageError, match=f"--keep-columns '{name}' has the name of a column that"):
        build("text", source, tmp_path / "set", keep_columns=kept, **values)
    assert not (tmp_path / "set").exists()


def test_a_set_without_them_is_what_it_was(tmp_path: Path) -> None:
    source = write_texts(tmp_path / "source", ROWS[:8])
    job = TextOptions((str(source),), str(tmp_path / "set"), workers=1, no_report=True)
    plain = preprocess(job).manifest
    other = dataclasses.replace(job, out=str(tmp_path / "other"), kept_in_index=False)
    assert preprocess(other).manifest.root_hash == plain.root_hash


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("text", ["", "a", "x" * 300, "é" * 129], [None, "a", "x" * 256, "é" * 128]),
        ("text", ["x" + "é" * 128, "x" * 255 + "é"], ["x" + "é" * 127, "x" * 255]),
        ("float32", [0.5, math.nan, math.inf, 1e-50], [0.5, None, math.inf, 0.0]),
        ("float32", [0.1, 3.4028235e38], np.array([0.1, 3.4028235e38], np.float32).tolist()),
        ("int64", [-(1 << 63), 0, (1 << 63) - 1], [-(1 << 63), 0, (1 << 63) - 1]),
    ],
)
def test_values(kind: str, values: list[Any], expected: list[Any]) -> None:
    assert index_values(values, kind).to_pylist() == expected
