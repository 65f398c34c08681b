from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_format import (
    DamageError,
    Feature,
    Schema,
    UsageError,
    decode_example,
    encode_columns,
    encode_example,
    encode_features,
    finish_example,
)

SCHEMA = Schema(
    "test",
    (
        Feature("id", "text"),
        Feature("raw", "bytes", (-1,)),
        Feature("numbers", "int64", (-1,)),
        Feature("reals", "float32", (-1,)),
        Feature("label", "class_label", late=True),
    ),
)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
float32 = st.floats(width=32, allow_nan=False)
values = st.fixed_dictionaries(
    {
        "id": st.text(st.characters(exclude_categories=["Cs"])),
        "raw": st.lists(st.binary(max_size=300), max_size=5),
        "numbers": st.lists(int64, max_size=40),
        "reals": st.lists(float32, max_size=40),
        "label": int64,
    }
)


@given(values)
def test_what_is_encoded_is_decoded(value):
    decoded = decode_example(encode_example(SCHEMA, value))
    assert decoded == {
        "id": [value["id"].encode()],
        "raw": value["raw"],
        "numbers": value["numbers"],
        "reals": value["reals"],
        "label": [value["label"]],
    }


@given(values)
def test_tensorflow_parses_the_same_values(value):
    import tensorflow as tf

    parsed = tf.train.Example.FromString(encode_example(SCHEMA, value)).features.feature
    assert set(parsed) == {feature.name for feature in SCHEMA.features}
    assert list(parsed["id"].bytes_list.value) == [value["id"].encode()]
    assert list(parsed["raw"].bytes_list.value) == value["raw"]
    assert list(parsed["numbers"].int64_list.value) == value["numbers"]
    assert list(parsed["reals"].float_list.value) == value["reals"]
    assert list(parsed["label"].int64_list.value) == [value["label"]]


SIMPLE = (Feature("a", "text"), Feature("b" * 130, "bytes"), Feature("c", "int64"))
rows = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs"])),
        st.one_of(st.binary(max_size=300), st.integers(0, 40_000).map(bytes)),
        int64,
    ),
    max_size=8,
)


@given(rows, st.booleans())
def test_columns_are_encoded_as_by_tensorflow(records, as_arrays):
    import tensorflow as tf

    columns = dict(zip(("a", "b" * 130, "c"), map(list, zip(*records, strict=True)), strict=False))
    columns = columns or {feature.name: [] for feature in SIMPLE}
    if as_arrays:
        columns["a"] = pa.array(columns["a"], pa.string())
        columns["b" * 130] = pa.array(columns["b" * 130], pa.large_binary())
    encoded = encode_columns(SIMPLE, columns, len(records)).to_pylist()
    for entries, (text, data, number) in zip(encoded, records, strict=True):
        lists = (
            tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()])),
            tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
            tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        )
        feature = {one.name: stored for one, stored in zip(SIMPLE, lists, strict=True)}
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        assert finish_example(entries) == example.SerializeToString(deterministic=True)


@given(st.lists(values, max_size=5))
def test_columns_are_encoded_as_records(records):
    columns = {feature.name: [one[feature.name] for one in records] for feature in SCHEMA.features}
    encoded = encode_columns(SCHEMA.features, columns, len(records)).to_pylist()
    assert encoded == [encode_features(SCHEMA.features, one) for one in records]


@pytest.mark.parametrize("size", [1 << 7, 1 << 14, 1 << 21])
def test_lengths_of_every_size_are_encoded_as_records(size):
    texts = ["x" * (size - less) for less in range(-2, 24)]
    encoded = encode_columns(SIMPLE[:1], {"a": texts}, len(texts)).to_pylist()
    assert encoded == [encode_features(SIMPLE[:1], {"a": text}) for text in texts]


def test_records_without_features_have_no_entries():
    assert encode_columns((), {}, 2).to_pylist() == [b"", b""]


@given(values)
def test_examples_of_tensorflow_are_decoded(value):
    import tensorflow as tf

    feature = {
        "id": tf.train.Feature(bytes_list=tf.train.BytesList(value=[value["id"].encode()])),
        "numbers": tf.train.Feature(int64_list=tf.train.Int64List(value=value["numbers"])),
        "reals": tf.train.Feature(float_list=tf.train.FloatList(value=value["reals"])),
        "nothing": tf.train.Feature(),
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    assert decode_example(example.SerializeToString()) == {
        "id": [value["id"].encode()],
        "numbers": value["numbers"],
        "reals": value["reals"],
        "nothing": [],
    }


def test_numbers_that_are_not_packed_are_decoded():
    def delimited(tag, content):
        return bytes((tag, len(content))) + content

    reals = b"".join(b"\x0d" + struct.pack("<f", x) for x in (1.5, -2.0))
    numbers = b"\x08\x05\x08\x07"
    entries = b"".join(
        delimited(0x0A, delimited(0x0A, name) + delimited(0x12, delimited(tag, content)))
        for name, tag, content in ((b"r", 0x12, reals), (b"n", 0x1A, numbers))
    )
    assert decode_example(delimited(0x0A, entries)) == {"r": [1.5, -2.0], "n": [5, 7]}


def test_bytes_are_golden():
    """Written out by hand from the protobuf encoding; FORMAT.md explains these bytes."""
    schema = Schema("t", (Feature("id", "text"), Feature("label", "class_label", late=True)))
    assert encode_example(schema, {"id": "a/1.jpg", "label": 300}) == bytes.fromhex(
        "0a24"  # Example.features, 36 bytes
        "0a11 0a02 6964 120b 0a09 0a07 612f312e6a7067"  # "id": a bytes_list, "a/1.jpg"
        "0a0f 0a05 6c6162656c 1206 1a04 0a02 ac02"  # "label": an int64_list, packed, 300
    )


def test_late_features_can_be_added_behind_the_others():
    early = encode_features(
        SCHEMA.features[:-1], {"id": "x", "raw": [], "numbers": [], "reals": []}
    )
    late = encode_features(SCHEMA.features[-1:], {"label": 3})
    whole = {"id": "x", "raw": [], "numbers": [], "reals": [], "label": 3}
    assert finish_example(early + late) == encode_example(SCHEMA, whole)


@pytest.mark.parametrize(
    ("name", "bad"),
    [("label", 1 << 63), ("label", "hat"), ("label", 1.5), ("reals", ["x"]), ("raw", [3])],
)
def test_a_value_of_the_wrong_kind_is_refused(name, bad):
    value = {"id": "x", "raw": [], "numbers": [], "reals": [], "label": 3, name: bad}
    with pytest.raises(UsageError, match=name):
        encode_example(SCHEMA, value)


def test_a_missing_feature_is_named():
    with pytest.raises(UsageError, match="'raw'"):
        encode_example(SCHEMA, {"id": "x"})
    with pytest.raises(UsageError, match="'raw'"):
        encode_columns(SCHEMA.features, {"id": ["x"]}, 1)


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_damage(data):
    try:
        decode_example(data)
    except DamageError as error:
        assert "tf.train.Example" in str(error)


@given(values, st.data())
def test_a_cut_example_never_crashes(value, data):
    encoded = encode_example(SCHEMA, value)
    try:
        decode_example(encoded[: data.draw(st.integers(0, len(encoded)))])
    except DamageError:
        pass


def test_not_a_number_survives():
    schema = Schema("t", (Feature("reals", "float32", (-1,)),))
    (value,) = decode_example(encode_example(schema, {"reals": [math.nan]}))["reals"]
    assert math.isnan(value)
