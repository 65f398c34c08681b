"""Columns of any kind and shape: --keep-columns, the set, every view of the reader, and TFDS."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import simplejpeg
import tensorflow as tf

import reader
from beam_jobs.corpus.kept_values import kept_from_json, kept_json
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from shard_format import UsageError, verify

KEPT = (
    "size:int32,ok:bool,exact:float64,boxes:float32[*,4],place:float64[2],tags:text[*],"
    "turns:int64[*][*],pair:text[2],grid:float32[*,*],mask:image,raw:bytes,pixels:uint8[2,3]"
)


def png(number: int) -> bytes:
    mask = np.full((4 + number % 3, 5), number, np.uint8)
    return bytes(cv2.imencode(".png", mask)[1].tobytes())


def row(number: int) -> dict[str, Any]:
    """A record, which has other numbers of values than its neighbours."""
    count = number % 4
    return {
        "label": f"c{number % 2}",
        "size": number,
        "ok": number % 3 == 0,
        "exact": number + 0.1,
        "boxes": [[number, one, number + 1, one + 1] for one in range(count)],
        "place": [number / 3, -number],
        "tags": [f"ä{number}-{one}" for one in range(count)],
        "turns": [list(range(one)) for one in range(count)],
        "pair": [f"a{number}", f"b{number}"],
        "grid": [[float(number)] * (1 + count)] * (1 + number % 2),
        "mask": png(number),
        "raw": bytes([number, 0, 255]),
        "pixels": [[number] * 3, [0, 1, 2]],
    }


ROWS = [row(number) for number in range(24)]


def expected(number: int) -> dict[str, Any]:
    """What a reader gives for it."""
    own = row(number)
    mask = np.full((4 + number % 3, 5, 1), number, np.uint8)
    return own | {"mask": mask}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typed")
    images = np.random.default_rng(0).integers(0, 256, (len(ROWS), 16, 16, 3), np.uint8)
    rows = [
        {"image": simplejpeg.encode_jpeg(pixels, 90), **own}
        for pixels, own in zip(images, ROWS, strict=True)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    options = ImageOptions(
        (str(folder / "a.parquet"),),
        str(folder / "set"),
        keep_columns=KEPT,
        split="train=1",
        resize="none",
        num_shards=2,
        workers=1,
    )
    preprocess(options)
    return folder / "set"


NAMES = [
    part.partition(":")[0] for part in KEPT.replace("*,", "*;").replace("2,3", "2;3").split(",")
]


def check(found: Any, wanted: Any) -> None:
    """Checks a value of a record, in whatever form a library has it."""
    if isinstance(wanted, str | bytes):
        wanted = wanted.encode() if isinstance(wanted, str) and isinstance(found, bytes) else wanted
        assert (found.item() if isinstance(found, np.ndarray) else found) == wanted
    elif isinstance(wanted, list) and wanted and isinstance(wanted[0], list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            check(one, other)
    elif isinstance(wanted, list) and wanted and isinstance(wanted[0], str):
        assert [one if isinstance(one, str) else one.decode() for one in found] == wanted
    else:
        assert np.array_equal(np.asarray(found).ravel(), np.float32(wanted).ravel()) or np.allclose(
            np.asarray(found, np.float64).ravel(), np.asarray(wanted, np.float64).ravel(), 1e-15
        )


def test_the_set_is_whole_and_random_access_gives_every_value(built: Path) -> None:
    assert not verify(built)[1]
    records = reader.random_access(built, "train")
    for record in records:
        number = record["size"]
        for name in NAMES:
            check(record[name], expected(number)[name])
        assert record["boxes"].shape == (number % 4, 4) and record["boxes"].dtype == np.float32
        assert record["exact"] == number + 0.1  # all 64 bits
        assert record["ok"] is (number % 3 == 0)
        assert record["mask"].shape == (4 + number % 3, 5, 1)


def load(built: Path, **options: Any) -> reader.Stream:
    own = {"features": tuple(NAMES), "batch_size": 5, "image_size": 8, "epochs": 1, "cache": "off"}
    return reader.load(built, **{**own, **options})


def rows_of(batches: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    for inputs, _ in batches:
        sizes = [int(one) for one in inputs["size"]]
        for place, number in enumerate(sizes):
            yield number, {name: value[place] for name, value in inputs.items()}


def test_batches_have_arrays_and_lists_of_arrays(built: Path) -> None:
    seen = set()
    for number, values in rows_of(load(built)):
        seen.add(number)
        for name in NAMES:
            check(values[name], expected(number)[name])
    assert seen == set(range(len(ROWS)))
    inputs, _ = next(iter(load(built)))
    assert isinstance(inputs["boxes"], list) and inputs["boxes"][0].dtype == np.float32
    assert inputs["pixels"].shape == (5, 2, 3) and inputs["pixels"].dtype == np.uint8
    assert inputs["exact"].dtype == np.float64 and inputs["ok"].dtype == bool
    assert isinstance(inputs["turns"][0], list)


def test_tensorflow_has_ragged_tensors(built: Path) -> None:
    dataset = load(built).dataset
    spec = dataset.element_spec[0]
    assert spec["boxes"] == tf.RaggedTensorSpec([None, None, 4], tf.float32, 1, tf.int64)
    assert spec["turns"].ragged_rank == 2 and spec["mask"].ragged_rank == 3
    assert spec["pair"] == tf.TensorSpec([None, 2], tf.string)
    seen = 0
    for inputs, _ in dataset:
        for place, number in enumerate(inputs["size"].numpy().tolist()):
            seen += 1
            for name in NAMES:
                value = inputs[name][place]
                if isinstance(value, tf.RaggedTensor):
                    value = value.to_list()
                else:
                    value = value.numpy()
                wanted = expected(number)[name]
                if isinstance(value, list) and name in ("boxes", "grid", "mask"):
                    value = np.array(value)
                check(value, wanted)
    assert seen == len(ROWS)


def test_torch_has_tensors_in_the_same_structure(built: Path) -> None:
    torch = pytest.importorskip("torch")
    for number, values in rows_of(load(built).torch()):
        assert isinstance(values["boxes"], torch.Tensor)
        check(values["boxes"].numpy(), expected(number)["boxes"])
        assert values["tags"] == expected(number)["tags"]


def test_lists_are_filled_up_to_a_size_with_a_count(built: Path) -> None:
    stream = load(built, list_size=2, features=("size", "boxes", "tags"))
    for inputs, _ in stream:
        assert inputs["boxes"].shape[1:] == (2, 4)
        for place, number in enumerate(inputs["size"].tolist()):
            count = min(2, number % 4)
            assert inputs["boxes_count"][place] == inputs["tags_count"][place] == count
            check(inputs["boxes"][place, :count], expected(number)["boxes"][:count])
            assert not inputs["boxes"][place, count:].any()
            assert inputs["tags"][place].tolist()[count:] == [b""] * (2 - count)
    spec = stream.dataset.element_spec[0]
    assert spec["boxes"].shape.as_list() == [None, 2, 4]
    assert spec["boxes_count"].dtype == tf.int64


class Darker:
    """A transform that only TensorFlow can do."""

    stage = "values"
    num_random = 0

    def __call__(self, example: Any, random: Any) -> Any:
        return {**example, "image": tf.cast(example["image"], tf.float32) / 2}


def test_a_graph_has_what_has_a_shape(built: Path) -> None:
    transforms = ["center_crop", Darker()]
    with pytest.raises(UsageError, match="'boxes' varies by record"):
        _ = load(built, augment=transforms, features=("boxes",)).dataset
    names = ("size", "ok", "exact", "boxes", "tags", "pair", "pixels", "raw", "place")
    mine = load(built, augment=transforms, features=names, list_size=2).dataset
    arrays = load(built, augment="none", features=names, list_size=2)
    for (one, _), (other, _) in zip(mine, arrays, strict=True):
        assert sorted(one) == sorted(other)
        for name in other:
            if name != "image":
                assert np.array_equal(one[name].numpy(), other[name]), name


def test_scalars_are_in_the_index(built: Path) -> None:
    stream = load(built, where="size > 20 and ok and exact < 100")
    assert stream.info.records == 1
    with pytest.raises(UsageError, match="boxes"):
        load(built, where="boxes > 1")


def test_tfds_decodes_every_feature(built: Path) -> None:
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(built)
    seen = 0
    for example in builder.as_dataset("train"):
        number = int(example["size"])
        seen += 1
        for name in NAMES:
            value = example[name]
            value = value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy()
            if name == "mask":  # made RGB
                assert value.shape == (4 + number % 3, 5, 3) and (value == number).all()
                continue
            check(value, expected(number)[name])
    assert seen == len(ROWS)


def test_the_report_says_how_many_values_there_are(built: Path) -> None:
    page = (built / "report.html").read_text()
    assert "float32[*,4]" in page and "0 to 3 values" in page and "image" in page


def texts(tmp_path: Path, name: str, rows: list[dict[str, Any]], **options: Any) -> Any:
    source = tmp_path / name
    if name.endswith("jsonl"):
        source.write_text("".join(json.dumps(one) + "\n" for one in rows))
    else:
        lines = [",".join(rows[0])]
        quoted = (
            ['"' + str(value).replace('"', '""') + '"' for value in one.values()] for one in rows
        )
        source.write_text("\n".join(lines + [",".join(one) for one in quoted]) + "\n")
    own: dict[str, Any] = {"split": "train=1", "workers": 1, "no_report": True, "no_labels": True}
    return preprocess(TextOptions((str(source),), str(tmp_path / "set"), **(own | options)))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_text_formats_hold_lists_as_json(tmp_path: Path, name: str) -> None:
    is_json = name.endswith("jsonl")
    rows = [
        {
            "text": f"a text with the number {number}",
            "score": 0.5 * number,
            "vector": [1.0, number] if is_json else json.dumps([1.0, number]),
            "tags": ["x"] * number if is_json else json.dumps(["x"] * number),
            "flag": number == 1 if is_json else str(number == 1),
        }
        for number in range(3)
    ]
    columns = "score:float64,vector:float32[2],tags:text[*],flag:bool"
    texts(tmp_path, name, rows, keep_columns=columns)
    records = reader.random_access(tmp_path / "set", "train")
    assert {
        (one["score"], *one["vector"].tolist(), len(one["tags"]), one["flag"]) for one in records
    } == {(0.5 * number, 1.0, number, number, number == 1) for number in range(3)}


@pytest.mark.parametrize(
    ("form", "value", "detail"),
    [
        ("int32", 1 << 40, "must hold int32, got 1099511627776"),
        ("bool", "maybe", "must hold bool, got 'maybe'"),
        ("uint8", -1, "must hold uint8, got -1"),
        ("float32[2]", [1, 2, 3], r"must hold float32[2], got [1, 2, 3]"),
        ("float32[2]", None, "must hold float32[2], got None"),
        ("float32[*,2]", [[1, 2], [3]], "must hold float32[*,2], got [[1, 2], [3]]"),
        ("text[*]", "[1", "must hold text[*], got '[1'"),
        ("text[*]", [1], "must hold text[*], got [1] (1 is int, not a string)"),
        ("int64[*][*]", [1], "must hold int64[*][*], got [1]"),
    ],
)
def test_a_value_of_another_form_is_rejected(
    tmp_path: Path, form: str, value: Any, detail: str
) -> None:
    rows = [{"text": "this one has a wrong value", "v": value}]
    rows.append({"text": "and this one has none at all, or a right one", "v": RIGHT[form]})
    outcome = texts(tmp_path, "a.jsonl", rows, keep_columns=f"v:{form}")
    rejects = pq.read_table(sorted((tmp_path / "set/quarantine").glob("*.parquet")))
    assert outcome.manifest.ledger.kept == 1
    (reason,), (text,) = rejects["reason"].to_pylist(), rejects["detail"].to_pylist()
    assert reason == "bad-value" and detail in text


RIGHT: dict[str, Any] = {
    "int32": 1,
    "bool": True,
    "uint8": 255.0,
    "float32[2]": [1, 2],
    "float32[*,2]": None,
    "text[*]": None,
    "int64[*][*]": None,
}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a:flaot32", "Did you mean 'float32'"),
        ("a:float32[", "no form"),
        ("a:class_label", "--label-column"),
        ("a:float32[0]", "a size that is neither"),
        ("a:float32[*,*],a/shape", "not unique"),
        ("image:bytes", "shardmill writes itself"),
        ("a,a:int64[*]", "not unique"),
    ],
)
def test_wrong_forms_are_refused_before_anything_is_read(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        TextOptions(("x",), "out", keep_columns=text)


def test_values_in_a_listing_are_what_they_were() -> None:
    values: tuple[Any, ...] = (
        *("a", None, 3, True, 0.1, math.inf, b"\0\xff", ["a", b"b"]),
        np.arange(6, dtype=np.float32).reshape(2, 3),
        [np.zeros((0, 2), np.int64), np.ones((1, 2), np.int64)],
        np.array([math.nan, math.inf]),
    )
    again = kept_from_json(kept_json(values))
    assert kept_json(again) == kept_json(values)
    assert again[:8] == values[:8]
    for one, other in [(again[8], values[8]), (again[9][0], values[9][0]), (again[10], values[10])]:
        assert one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
    assert math.isnan(kept_from_json(kept_json([math.nan]))[0])


def test_a_table_of_labels_may_have_tensors(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    generator = np.random.default_rng(1)
    lines = ["path,label,boxes,score"]
    for number in range(6):
        pixels = generator.integers(0, 256, (16, 16, 3), np.uint8)
        (folder / f"{number}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels, 90))
        boxes = json.dumps([[number, 0, 1, 1]] * (number % 3)).replace('"', '""')
        # A path that is named twice with the same values is one record.
        lines += [f'{number}.jpg,c{number % 2},"{boxes}",nan'] * (1 + number % 2)
    table = tmp_path / "labels.csv"
    table.write_text("\n".join(lines) + "\n")
    options = ImageOptions(
        (str(folder),),
        str(tmp_path / "set"),
        labels=str(table),
        keep_columns="boxes:float32[*,4],score:float32",
        split="train=1",
        workers=1,
        no_report=True,
    )
    assert preprocess(options).manifest.ledger.kept == 6
    for record in reader.random_access(tmp_path / "set", "train"):
        number = int(record["id"].partition(".")[0])
        assert record["boxes"].shape == (number % 3, 4) and math.isnan(record["score"])
        assert not len(record["boxes"]) or record["boxes"][0][0] == number
