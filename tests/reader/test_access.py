from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import reader
from reader.graph.decoders import DECODERS
from shard_format import Feature, Schema, ShardSetError, UsageError, encode_example, load_manifest
from shard_format.tfrecord import read_records

MakeSet = Callable[..., Path]
WriteRecords = Callable[..., Path]


@pytest.fixture(scope="module")
def data(tiny: Path) -> reader.RandomAccess:
    return reader.random_access(tiny)


def test_records_stand_in_the_order_of_the_index(data: reader.RandomAccess) -> None:
    assert len(data) == 110
    assert [record["id"] for record in data] == [f"r{number}" for number in range(110)]
    assert [record["label"] for record in data] == list(range(110))
    assert list(data[7]) == ["id", "image", "label"]
    assert type(data[7]["label"]) is int


def test_images_are_arrays_that_may_be_written_to(data: reader.RandomAccess) -> None:
    image = data[57]["image"]
    assert image.shape == (24, 32, 3) and image.dtype == np.uint8
    assert np.abs(image.mean((0, 1)) - [10, 10 + 25 * 5, 10 + 25 * 7]).max() < 6
    assert image.flags.writeable and image.flags.c_contiguous


def test_numbers_are_those_of_a_list(data: reader.RandomAccess) -> None:
    for number in (0, -1, -110, 109, np.int64(5), np.uint8(5), np.int32(-5), True):
        assert data[number]["label"] == range(110)[number]
    for number in (110, -111, np.int64(1 << 40)):
        with pytest.raises(IndexError, match=r"is not in \[-110, 110\) of 'train'"):
            data[number]
    for wrong in (1.0, "1", None, np.float32(1)):
        with pytest.raises(TypeError):
            data[wrong]


LIMITS = st.none() | st.integers(-130, 130)


@given(LIMITS, LIMITS, st.none() | st.integers(-12, 12).filter(bool), st.integers(-200, 200))
def test_slices_are_those_of_a_list(
    data: reader.RandomAccess, start: int | None, stop: int | None, step: int | None, number: int
) -> None:
    view, expected = data[start:stop:step], list(range(110))[start:stop:step]
    assert isinstance(view, reader.RandomAccess) and len(view) == len(expected)
    try:
        label = expected[number]
    except IndexError:
        with pytest.raises(IndexError):
            view[number]
    else:
        assert view[number]["label"] == label
    assert [record["label"] for record in view[1::20]] == expected[1::20]


def test_a_slice_reads_nothing(make_set: MakeSet) -> None:
    directory = make_set({"train": (6, 6)})
    data = reader.random_access(directory)
    for shard in directory.glob("*.tfrecord-*"):
        shard.unlink()
    view = data[2:10][::-1]
    assert len(view) == 8
    with pytest.raises(ShardSetError, match="No shard file"):
        view[0]


def test_pytorch_fetches_a_batch_at_once(data: reader.RandomAccess) -> None:
    records = data.__getitems__([3, 109, 3, -2])
    assert [record["label"] for record in records] == [3, 109, 3, 108]


def test_the_name_of_a_source_is_that_of_its_content(tiny: Path, data: reader.RandomAccess) -> None:
    # Grain refuses to go on from a checkpoint if this changes.
    again = reader.random_access(tiny.parent / "." / "set")
    assert repr(again) == repr(data)
    assert repr(again[1:]) != repr(data) != repr(reader.random_access(tiny, decode=False))
    assert str(tiny) not in repr(data) and "0x" not in repr(data)


def test_info_tells_of_classes_and_features(tiny: Path, data: reader.RandomAccess) -> None:
    manifest = load_manifest(tiny)
    info = reader.random_access(tiny, "test").info
    assert (info.name, info.split, info.records) == ("tiny", "test", 21)
    assert info.features == manifest.schema.features and info.root_hash == manifest.root_hash
    assert info.class_names[3] == "class3" and info.num_classes == 131
    assert data[2:5].info == data.info


@pytest.mark.parametrize("encoding", DECODERS)
def test_pixels_are_those_of_a_stream(make_set: MakeSet, encoding: str) -> None:
    directory = make_set({"train": (30,)}, encoding=encoding, sizes=((24, 32), (17, 9), (1, 1)))
    pixels = reader.random_access(directory)
    stored = reader.random_access(directory, decode=False)
    for number in range(30):
        record, raw = pixels[number], stored[number]
        assert isinstance(raw["image"], bytes)
        expected = DECODERS[encoding].decode(raw, None).numpy()
        np.testing.assert_array_equal(record["image"], expected)
        assert record["image"].flags.writeable


def test_every_sample_has_the_pixels_of_a_stream(samples: Path) -> None:
    from reader.access.numpy_decoders import decode_jpeg

    compared = 0
    for file in sorted(samples.glob("*/*.jpg"))[::9]:
        try:
            pixels = decode_jpeg(file.read_bytes(), {})
        except ValueError:
            continue
        np.testing.assert_array_equal(pixels, tf.io.decode_jpeg(file.read_bytes(), channels=3))
        compared += 1
    assert compared > 30


def test_any_number_of_labels_is_an_array(make_set: MakeSet) -> None:
    data = reader.random_access(make_set({"train": (12,)}, labels="many"))
    assert data[0]["label"].shape == (0,) and data[0]["label"].dtype == np.int64
    assert data[8]["label"].tolist() == [6, 7, 8]


def test_a_set_without_labels_has_none(make_set: MakeSet) -> None:
    data = reader.random_access(make_set({"train": (3,)}, labels="none"))
    assert list(data[0]) == ["id", "image"] and data.info.class_names == ()


def test_documents_tokens_and_columns(write_records: WriteRecords) -> None:
    features = (
        Feature("id", "text"),
        Feature("text", "text"),
        Feature("tokens", "int64", (-1,)),
        Feature("positions", "int64", (4,)),
        Feature("stars", "float32"),
        Feature("scores", "float32", (-1,)),
        Feature("tags", "text", (-1,)),
        Feature("blob", "bytes"),
        Feature("year", "int64"),
    )
    values: dict[str, Any] = {
        "id": "a#0",
        "text": "Größe \N{SNOWMAN}",
        "tokens": list(range(-3, 40)),
        "positions": [0, 1, 2, 3],
        "stars": 0.5,
        "scores": [],
        "tags": ["x", "é"],
        "blob": b"\xff\x00",
        "year": -1,
    }
    directory = write_records(Schema("text", features), {"train": [(values, {})]})
    record = reader.random_access(directory)[0]
    assert list(record) == [feature.name for feature in features]
    for name in ("id", "text", "stars", "tags", "blob", "year"):
        assert record[name] == values[name] and type(record[name]) is type(values[name])
    for name, dtype in (("tokens", np.int64), ("positions", np.int64), ("scores", np.float32)):
        assert record[name].dtype == dtype and record[name].tolist() == values[name]


def test_an_empty_split_has_no_record(make_set: MakeSet) -> None:
    data = reader.random_access(make_set({"train": (3,), "test": ()}), "test")
    assert len(data) == 0 and list(data) == [] and len(data[:5]) == 0
    with pytest.raises(IndexError):
        data[0]


@given(st.data())
def test_a_record_is_the_one_that_was_written(tiny: Path, draw: st.DataObject) -> None:
    data = reader.random_access(tiny, decode=False)
    frames = [
        payload
        for shard in load_manifest(tiny).splits["train"].shards
        for _, payload in read_records(tiny / shard.file)
    ]
    number = draw.draw(st.integers(0, len(frames) - 1))
    schema = load_manifest(tiny).schema
    assert encode_example(schema, data[number]) == frames[number]


def test_options_are_checked(tiny: Path, tmp_path: Path) -> None:
    for options, message in (
        (
            {"split": "tset"},
            "Unknown split 'tset' in .*Did you mean 'test'.* Choices: train, test",
        ),
        ({"decode": "no"}, "decode is 'no' in reader.random_access. Pass True or False"),
        ({"max_open_files": 0}, "max_open_files is 0 .* Pass an integer of at least 1"),
    ):
        with pytest.raises(UsageError, match=message):
            reader.random_access(tiny, **options)  # type: ignore[arg-type]
    assert len(reader.random_access(tiny.absolute().as_uri())) == len(reader.random_access(tiny))
    with pytest.raises(UsageError, match=r"URL of s3://bucket/set has credentials"):
        reader.random_access("s3://key:secret@bucket/set")
    with pytest.raises(ShardSetError, match="There is no directory"):
        reader.random_access(tmp_path / "nothing")


def test_an_encoding_that_is_not_known_is_refused(make_set: MakeSet) -> None:
    directory = make_set({"train": (3,)}, encoding="avif")
    with pytest.raises(ShardSetError, match=r"unknown encoding 'avif' .*decode=False"):
        reader.random_access(directory)
    assert isinstance(reader.random_access(directory, decode=False)[0]["image"], bytes)
