"""`--label-column make,colour`: a label feature of each column, from every kind of source."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from beam_jobs.stages.labels import Labels, sorted_names
from shard_format import (
    Feature,
    InputError,
    Schema,
    UsageError,
    decode_example,
    finish_example,
    open_index,
)
from shard_format.dropped import read_refused
from tests.fixtures.sets import stored_records

from .conftest import files_of, framed, tar_of

MAKES, COLOURS = ("bmw", "vw"), ("10", "9", "red")
COLUMNS = "make,colour"
_EXAMPLE = Schema("image", tuple(Feature(name, "bytes") for name in ("image", "make", "colour")))


def said(number: int) -> tuple[str, str]:
    return MAKES[number % 2], COLOURS[number % 3]


def _rows(images: list[bytes]) -> list[dict[str, Any]]:
    return [
        {"image": data, "make": said(number)[0], "colour": said(number)[1]}
        for number, data in enumerate(images)
    ]


def _table(images: list[bytes], out: Path) -> tuple[Path, dict[str, object]]:
    lines = ["path,colour,make"]
    for number, data in enumerate(images):
        (out / f"{number}.jpg").write_bytes(data)
        make, colour = said(number)
        lines.append(f"{number}.jpg,{colour},{make}")
    (out / "cars.csv").write_text("\n".join(lines))
    return out, {"labels": str(out / "cars.csv")}


def _parquet(images: list[bytes], out: Path) -> tuple[Path, dict[str, object]]:
    """With class ids of Hugging Face in the second column."""
    table = pa.Table.from_pylist(
        [row | {"colour": COLOURS.index(row["colour"])} for row in _rows(images)]
    )
    features = {"colour": {"names": list(COLOURS), "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), out / "cars.parquet", row_group_size=5)
    return out, {}


def _webdataset(images: list[bytes], out: Path) -> tuple[Path, dict[str, object]]:
    members: dict[str, bytes] = {}
    for number, row in enumerate(_rows(images)):
        members[f"{number:03d}.jpg"] = row.pop("image")
        members[f"{number:03d}.json"] = json.dumps(row).encode()
    return tar_of(out / "cars.tar", members), {}


def _tfrecord(images: list[bytes], out: Path) -> tuple[Path, dict[str, object]]:
    """With class ids of TFDS in the second column."""
    schema = Schema("image", (*_EXAMPLE.features[:2], Feature("colour", "int64")))
    examples = [row | {"colour": COLOURS.index(row["colour"])} for row in _rows(images)]
    (out / "cars.tfrecord").write_bytes(framed(examples, schema))
    (out / "colour.labels.txt").write_text("\n".join(COLOURS) + "\n")
    return out, {}


def _shard_set(images: list[bytes], out: Path) -> tuple[Path, dict[str, object]]:
    (out / "raw").mkdir()
    source, options = _parquet(images, out / "raw")
    _build(source, out / "first", **options)
    return out / "first", {"label_column": "label,colour"}


def _build(source: Path, out: Path, **options: Any) -> Any:
    values: dict[str, Any] = {"label_column": COLUMNS, "workers": 1, "no_report": True}
    values |= {"resize": "none", "quality": "keep"} | options
    return preprocess(ImageOptions((str(source),), str(out), **values))


def _documents(path: Path, rows: list[dict[str, Any]], **options: Any) -> Any:
    if not path.exists():  # units are known by the time of the last change
        lines = (json.dumps({"text": f"words {n}"} | row) for n, row in enumerate(rows))
        path.write_text("\n".join(lines))
    values: dict[str, Any] = {"label_column": COLUMNS, "workers": 1, "no_report": True}
    job = TextOptions((str(path),), str(path.with_name("set")), **values | options)
    return preprocess(job)


@pytest.mark.parametrize("form", [_table, _parquet, _webdataset, _tfrecord, _shard_set])
def test_every_column_becomes_a_label(
    form: Callable[..., Any], make_images: Any, tmp_path: Path
) -> None:
    images = list(files_of(make_images(11)).values())
    (tmp_path / "source").mkdir()
    source, options = form(images, tmp_path / "source")
    report = _build(source, tmp_path / "set", **options)
    features = {one.name: one for one in report.manifest.schema.features}
    assert list(features) == ["id", "image", "label", "colour"]
    assert features["label"].class_names == MAKES and features["colour"].class_names == COLOURS
    results = {}
    for row, example in stored_records(tmp_path / "set", report.manifest):
        assert [row["label"]] == example["label"] and [row["label.colour"]] == example["colour"]
        results[example["image"][0]] = MAKES[row["label"]], COLOURS[row["label.colour"]]
    assert results == {data: said(number) for number, data in enumerate(images)}
    assert (tmp_path / "set" / "colour.labels.txt").read_text().split() == list(COLOURS)
    counts = [
        split.statistics["labels"]["colour"]["class_counts"]
        for split in report.manifest.splits.values()
    ]
    assert sum(count["red"] for count in counts) == 3


def test_a_record_without_a_further_label_is_rejected(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"make": "vw", "colour": colour} for colour in ("red", 7, True)]
    rows += [{"make": "vw"}, {"colour": "red"}, {"make": "vw", "colour": " "}]
    rows += [{"make": "vw", "colour": ["red", "blue"]}, {"make": "vw", "colour": {"r": 1}}]
    report = _documents(tmp_path / "cars.jsonl", rows)
    assert report.manifest.schema["colour"].class_names == ("7", "red", "true")
    reasons = {"bad-label": 1, "no-label": 3, "several-labels": 1}
    assert report.manifest.ledger.reasons == reasons
    details = {one.reason: one.detail for one in read_refused(report.out, report.manifest)}
    assert details["no-label"] == "it has no 'colour'"
    assert details["bad-label"] == "'colour': dict is neither text nor a number"
    assert details["several-labels"].startswith("'colour': it has 2 labels")


def test_a_name_with_the_separator_is_rejected(tmp_path: Path, make_images: Any) -> None:
    rows = [{"make": "v\x1fw", "colour": "red"}, {"make": "vw", "colour": "r\x1fed"}]
    report = _documents(tmp_path / "cars.jsonl", [*rows, {"make": "vw", "colour": "red"}])
    assert report.manifest.ledger.reasons == {"bad-label": 2}
    assert report.manifest.schema["label"].class_names == ("vw",)
    folders = tmp_path / "folders"
    for number, data in enumerate(files_of(make_images(4)).values()):
        folder = folders / ("a\x1fb" if number % 2 else "c")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(data)
    for several in (False, True):
        out = str(tmp_path / f"images-{several}")
        done = preprocess(ImageOptions((str(folders),), out, workers=1, multi_label=several))
        assert done.manifest.ledger.reasons == {"bad-label": 2}
        assert done.manifest.schema["label"].class_names == ("c",)


def test_the_first_label_alone_is_balanced(tmp_path: Path) -> None:
    rows = [{"make": MAKES[number % 4 == 0], "colour": f"c{number}"} for number in range(40)]
    report = _documents(tmp_path / "cars.jsonl", rows, balance="oversample", split="train=1")
    statistics = report.manifest.splits["train"].statistics
    assert statistics["class_counts"] == {"bmw": 30, "vw": 30}
    assert sum(statistics["labels"]["colour"]["class_counts"].values()) == 60
    assert set(statistics["labels"]["colour"]["class_weights"]) == {f"c{n}" for n in range(40)}


def test_units_are_staged_again_for_another_label(tmp_path: Path) -> None:
    rows = [{"make": said(number)[0], "colour": said(number)[1]} for number in range(20)]
    staging = {"staging": str(tmp_path / "staging")}
    one = _documents(tmp_path / "cars.jsonl", rows, label_column="make", **staging)
    assert [feature.name for feature in one.manifest.schema.features] == ["id", "text", "label"]
    (tmp_path / "set").rename(tmp_path / "one")
    two = _documents(tmp_path / "cars.jsonl", rows, **staging)
    assert two.build["units_reused"] == 0 and two.manifest.schema["colour"].class_names == COLOURS
    (tmp_path / "set").rename(tmp_path / "two")
    again = _documents(tmp_path / "cars.jsonl", rows, **staging)
    assert again.build["units_reused"] == again.build["units"]
    assert again.manifest.root_hash == two.manifest.root_hash
    indexes = [open_index(tmp_path / name / "index/train.arrow") for name in ("one", "two")]
    assert indexes[0]["label"].equals(indexes[1]["label"])  # the main label is what it was


def test_a_further_label_may_have_the_name_of_an_index_column(tmp_path: Path) -> None:
    rows = [{"make": "vw", "bytes": "b", "key": f"k{n}", "chars": "c"} for n in range(3)]
    report = _documents(tmp_path / "cars.jsonl", rows, label_column="make,bytes,key,chars")
    for row, example in stored_records(report.out, report.manifest):
        assert row["label.key"] == example["key"][0] and row["chars"] == len("words 0")
    assert report.manifest.schema["key"].class_names == ("k0", "k1", "k2")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"label_column": "make,make"}, "distinct names"),
        ({"label_column": "make,"}, "distinct names"),
        ({"label_column": "make,image"}, "shardmill writes itself"),
        ({"label_column": "make,label"}, "Name it first"),
        ({"label_column": "make,../x"}, "part of a file name"),
        ({"label_column": "make,a\nb"}, "part of a file name"),
        ({"label_column": "make," + "x" * 201}, "part of a file name"),
        ({"label_column": COLUMNS, "multi_label": True}, "--multi-label needs one label column"),
        ({"label_column": COLUMNS, "keep_columns": "colour"}, "--keep-columns names 'colour' too"),
    ],
)
def test_wrong_columns_are_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        ImageOptions(("corpus",), "set", **options)


def test_sources_without_columns_are_refused(make_images: Any, tmp_path: Path) -> None:
    corpus = make_images(4)
    with pytest.raises(UsageError, match="'colour', but class folders have none"):
        _build(corpus, tmp_path / "set")
    members = tar_of(tmp_path / "cars.tar", files_of(corpus))
    with pytest.raises(InputError, match="with the columns 'colour'"):
        _build(members, tmp_path / "set")
    (tmp_path / "cars.csv").write_text("path,make\na.jpg,vw\n")
    with pytest.raises(InputError, match=r"no column 'colour' \(--label-column\)"):
        _build(corpus, tmp_path / "set", labels=str(tmp_path / "cars.csv"))
    with pytest.raises(InputError, match=r"no column 'colour' \(--label-column\)"):
        _documents(tmp_path / "cars.jsonl", [{"make": "vw"}])


def _stored(columns: dict[str, list[str]]) -> tuple[dict[str, list[str]], Labels]:
    """(class names by label, labels) of a shard whose records have these names."""
    features = [Feature(name, "class_label", late=True) for name in columns]
    names = {name: sorted_names(set(column)) for name, column in columns.items()}
    staged = {("label" if n == "label" else f"label.{n}"): pa.array(c) for n, c in columns.items()}
    return names, Labels(pa.table(staged), Schema("text", tuple(features)), names)


_names = st.text(st.characters(codec="utf-8", exclude_characters="\x1f"), min_size=1)


@given(st.lists(st.tuples(_names, st.text("0123456789", min_size=1)), min_size=1))
def test_ids_are_positions_among_the_sorted_names(rows: list[tuple[str, str]]) -> None:
    columns = {"label": [row[0] for row in rows], "größe": [row[1] for row in rows]}
    names, labels = _stored(columns)
    index = labels.columns()
    for number, entry in enumerate(labels.entries(0, len(rows))):
        example = decode_example(finish_example(entry))
        for name, column in zip(columns, index.values(), strict=True):
            assert example[name] == [column[number].as_py()]
            assert names[name][example[name][0]] == columns[name][number]


def test_a_hundred_thousand_classes() -> None:
    order = np.random.default_rng(0).permutation(100_000)
    _, labels = _stored({"label": ["a"] * len(order), "plate": list(map(str, order))})
    assert labels.columns()["label.plate"].to_pylist() == order.tolist()
