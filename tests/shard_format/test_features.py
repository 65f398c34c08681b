"""Features of every kind and shape: declared, checked, stored, read back, described for TFDS."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import ShardSetError, UsageError
from shard_format import Feature, Schema, decode_example, encode_example
from shard_format.example_parser import (
    ByteLists,
    NumberLists,
    join_examples,
    one_example,
    parse_examples,
)
from shard_format.feature_values import checked, from_stored
from shard_format.features import KINDS
from shard_format.tfds_metadata import tfds_files

# (form, value of a user, what is stored as, in the order of Feature.stored)
STORED: list[tuple[str, Any, dict[str, Any]]] = [
    ("int64", -3, {"f": [-3]}),
    ("int32", np.int32(7), {"f": [7]}),
    ("uint8", 255, {"f": [255]}),
    ("bool", True, {"f": [1]}),
    ("bool", np.array(False), {"f": [0]}),
    ("float32", 0.5, {"f": [0.5]}),
    ("float32", 3, {"f": [3.0]}),
    ("float64", 0.1, {"f": [np.float64(0.1).tobytes()]}),
    ("text", "Größe", {"f": ["Größe".encode()]}),
    ("text", b"a", {"f": [b"a"]}),
    ("bytes", b"\0\xff", {"f": [b"\0\xff"]}),
    ("bytes", bytearray(b"ab"), {"f": [b"ab"]}),
    ("image", b"\x89PNG", {"f": [b"\x89PNG"]}),
    ("text[*]", ["a", "", "b"], {"f": [b"a", b"", b"b"]}),
    ("text[*]", [], {"f": []}),
    ("text[2]", ("a", "b"), {"f": [b"a", b"b"]}),
    ("bytes[*]", [b"x"], {"f": [b"x"]}),
    ("image[*]", [b"1", b"2"], {"f": [b"1", b"2"]}),
    ("int64[*]", [1, 2, 300], {"f": [1, 2, 300]}),
    ("int64[3]", np.array([1, 2, 3]), {"f": [1, 2, 3]}),
    ("bool[2,2]", [[True, False], [False, True]], {"f": [1, 0, 0, 1]}),
    ("float32[*,4]", np.ones((2, 4)), {"f": [1.0] * 8}),
    ("float32[*,4]", np.zeros((0, 4)), {"f": []}),
    ("float32[2,3]", np.arange(6.0).reshape(2, 3), {"f": [0, 1, 2, 3, 4, 5]}),
    ("uint8[2,2]", [[1, 2], [3, 4]], {"f": [b"\1\2\3\4"]}),
    ("uint8[*]", [9, 8], {"f": [b"\x09\x08"]}),
    ("int32[2,*]", [[1, 2], [3, 4]], {"f": [np.arange(1, 5, dtype="<i4").tobytes()]}),
    ("float32[*,*]", [[1.5, 2]], {"f/shape": [1, 2], "f/value": [np.float32([1.5, 2]).tobytes()]}),
    ("float64[*,*,1]", np.zeros((2, 0, 1)), {"f/shape": [2, 0, 1], "f/value": [b""]}),
    (
        "int64[*][*]",
        [[1, 2], [], [3]],
        {"f/ragged_flat_values": [1, 2, 3], "f/ragged_row_lengths_0": [2, 0, 1]},
    ),
    ("int64[*][*]", [], {"f/ragged_flat_values": [], "f/ragged_row_lengths_0": []}),
    (
        "float32[*][*,2]",
        [[[0, 1], [2, 3]], [[4, 5]]],
        {"f/ragged_flat_values": [0, 1, 2, 3, 4, 5], "f/ragged_row_lengths_0": [2, 1]},
    ),
    (
        "text[*][*]",
        [["a", "b"], ["c"]],
        {"f/ragged_flat_values": [b"a", b"b", b"c"], "f/ragged_row_lengths_0": [2, 1]},
    ),
    ("bbox", [0, 0.25, 0.5, 1], {"f": [0.0, 0.25, 0.5, 1.0]}),
    ("bbox[*]", [[0, 0, 1, 1]], {"f": [0.0, 0.0, 1.0, 1.0]}),
    ("bbox[*]", np.zeros((0, 4)), {"f": []}),
]


@pytest.mark.parametrize(("form", "value", "stored"), STORED, ids=lambda one: str(one)[:30])
def test_a_value_is_stored_and_read_back(form: str, value: Any, stored: dict[str, Any]) -> None:
    feature = Feature.parse("f", form)
    assert feature.form == form and Feature.parse("f", feature.form) == feature
    right = checked(feature, value)
    example = encode_example(Schema("x", (feature,)), {"f": right})
    assert decode_example(example) == stored
    assert list(stored) == [part.name for part in feature.stored]
    back = from_stored(feature, [stored[part.name] for part in feature.stored])
    assert same(back, right)
    if isinstance(back, np.ndarray):
        assert back.dtype == feature.type.dtype
        assert [size for size in feature.shape if size >= 0] == [
            own for own, size in zip(back.shape, feature.shape, strict=True) if size >= 0
        ]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.shape == np.shape(other) and np.array_equal(one, other, equal_nan=True)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize(
    ("form", "value", "problem"),
    [
        ("int64", 1.5, "1.5 is no int64"),
        ("int64", "1", "'1' is <U1, not int64"),
        ("int64", None, "None is NoneType, not int64"),
        ("int64", 1 << 63, "is no int64"),
        ("int64", 1 << 70, "int, not int64"),
        ("int64", [1], r"has the shape \[1\], not a scalar"),
        ("uint8", 256, "256 is no uint8"),
        ("uint8", -1, "-1 is no uint8"),
        ("bool", 2, "2 is no bool"),
        ("int32", math.nan, "nan is no int32"),
        ("float32", 1e300, "1e[+]300 is no float32"),
        ("float32[*,4]", [[1, 2, 3]], r"has the shape \[1, 3\], not \[\*,4\]"),
        ("float32[*,4]", [1, 2, 3, 4], r"has the shape \[4\], not \[\*,4\]"),
        ("float32[*,4]", [[1], [1, 2]], "is not a tensor"),
        ("text", 3, "3 is int, not a string"),
        ("text", b"\xff", "utf-8"),
        ("text", "\ud800", "surrogates"),
        ("text[*]", "abc", "'abc' is not a list"),
        ("text[2]", ["a"], "has 1 values, not 2"),
        ("text[*]", ["a", 3], "3 is int, not a string"),
        ("bytes", "a", "'a' is str, not bytes"),
        ("image[*]", b"abc", "is not a list"),
        ("int64[*][*]", 3, "3 is not a list"),
        ("int64[*][*]", [1, 2], r"has the shape \[\], not \[\*\]"),
        ("float32[*][*,2]", [[1, 2]], r"has the shape \[2\], not \[\*,2\]"),
        ("bbox", [0, 0, 1.5, 1], "box .* shares of the image"),
        ("bbox[*]", [[0, 0, 1, 1], [0, 1, 1, 0]], r"box \[0.0, 1.0, 1.0, 0.0\]"),
        ("bbox", [0, math.nan, 1, 1], "box"),
    ],
)
def test_a_wrong_value_says_what_it_is(form: str, value: Any, problem: str) -> None:
    feature = Feature.parse("boxes", form)
    with pytest.raises(ValueError, match=problem) as caught:
        checked(feature, value)
    assert str(caught.value).startswith(f"feature 'boxes' must be {form}: ")


@pytest.mark.parametrize(
    "form",
    [
        *("int", "Int64", "int64[]", "int64[0]", "int64[-1]", "int64[*", "int64[**]", "int64[1*]"),
        *("text[*,*]", "text[2,2]", "image[*,2]", "bbox[*,2]", "text[*][*][*]", "image[*][*,2]"),
        *("uint8[*][*]", "float64[*][*]", "int64[*][*,*]", "int64[*] ", "", "[*]"),
    ],
)
def test_what_is_no_form_is_refused(form: str) -> None:
    with pytest.raises(UsageError, match="'f'"):
        Feature.parse("f", form)


def test_rows_of_a_list_of_fixed_size_are_a_tensor() -> None:
    assert Feature.parse("f", "int64[*][4]") == Feature.parse("f", "int64[*,4]")
    assert Feature.parse("f", "int64[2][4]") == Feature.parse("f", "int64[2,4]")


@st.composite
def values_of_features(draw: st.DrawFn) -> tuple[Feature, Any]:
    """A feature of any kind and shape, and a value of it."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    form = kind
    dims: list[int] = []
    if KINDS[kind].makes_tensors:
        dims = draw(st.lists(st.sampled_from([-1, 1, 2, 3]), max_size=3))
    elif draw(st.booleans()):
        dims = [draw(st.sampled_from([-1, 2]))]
    if dims:
        form += "[" + ",".join("*" if size < 0 else str(size) for size in dims) + "]"
    feature = Feature.parse("f", form)
    shape = [draw(st.integers(0, 3)) if size < 0 else size for size in dims]
    return feature, draw(tensors(kind, shape))


def tensors(kind: str, shape: list[int]) -> st.SearchStrategy[Any]:
    scalars: dict[str, st.SearchStrategy[Any]] = {
        "text": st.text(st.characters(codec="utf-8"), max_size=9),
        "bytes": st.binary(max_size=9),
        "image": st.binary(max_size=9),
        "class_label": st.integers(0, 9),
        "bool": st.booleans(),
        "float32": st.floats(width=32),
        "float64": st.floats(),
        "bbox": st.just([0.0, 0.5, 0.75, 1.0]),
    }
    if kind in scalars:
        value = scalars[kind]
    else:
        limits = np.iinfo(kind)
        value = st.integers(int(limits.min), int(limits.max))
    for size in reversed(shape):
        value = st.lists(value, min_size=size, max_size=size)
    if shape and KINDS[kind].is_number:  # nested lists lose the shape of what is empty
        full = (*shape, *KINDS[kind].value_shape)
        return value.map(lambda some: np.array(some, KINDS[kind].dtype).reshape(full))
    return value


@given(st.lists(values_of_features(), min_size=1, max_size=4))
def test_any_value_is_read_back_by_both_parsers(some: list[tuple[Feature, Any]]) -> None:
    features = tuple(
        Feature(f"f{number}", one.kind, one.shape) for number, (one, _) in enumerate(some)
    )
    values = {f"f{number}": checked(*one) for number, one in enumerate(some)}
    schema = Schema("x", features)
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    example = encode_example(schema, values)
    stored: dict[str, Any] = dict(decode_example(example))
    columns = parse_examples(
        one_example(example), [part for one in features for part in one.stored]
    )
    for feature in features:
        parts = [stored[part.name] for part in feature.stored]
        assert same_number(from_stored(feature, parts), values[feature.name])
        of_columns = []
        for part in feature.stored:
            column = columns[part.name]
            if isinstance(column, ByteLists):
                of_columns.append(list(column.values))
            else:
                of_columns.append(
                    column[0] if isinstance(column, NumberLists) else [bytes(column[0])]
                )
        assert same_number(from_stored(feature, of_columns), values[feature.name])


def same_number(one: Any, other: Any) -> bool:
    """As `same`, where NaN is itself."""
    if isinstance(one, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return same(one, other)


@pytest.mark.parametrize(
    ("form", "parts"),
    [
        ("int64", [[1, 2]]),
        ("int64", [[b"a"]]),
        ("float32[*,4]", [[1.0] * 6]),
        ("text", [[]]),
        ("text", [[1]]),
        ("text", [[b"\xff"]]),
        ("text[2]", [[b"a"]]),
        ("uint8[2,2]", [[b"\1\2\3"]]),
        ("uint8[2,2]", [[b"\1\2\3\4", b""]]),
        ("float32[*,*]", [[1, 2], [b"\0" * 4]]),
        ("float32[*,*]", [[-1, -2], [b"\0" * 8]]),
        ("int64[*][*]", [[1, 2, 3], [2]]),
        ("int64[*][*]", [[1, 2], [3, -1]]),
        ("int64[*][*]", [[1], []]),
    ],
)
def test_damaged_parts_are_no_value(form: str, parts: list[Any]) -> None:
    with pytest.raises(ValueError):
        from_stored(Feature.parse("f", form), parts)


def test_lists_of_bytes_are_parsed_many_at_a_time() -> None:
    feature = Feature("tags", "text", (-1,))
    schema = Schema("x", (feature, Feature("n", "int64")))
    records = [["a", "bc"], [], [""], ["d" * 300]]
    examples = [encode_example(schema, {"tags": tags, "n": n}) for n, tags in enumerate(records)]
    joined = join_examples(map(one_example, examples))
    column = parse_examples(joined, schema.features)["tags"]
    assert isinstance(column, ByteLists)
    taken = column.take(np.array([3, 0]))
    assert [bytes(one) for one in taken.values] == [b"d" * 300, b"a", b"bc"]
    assert taken.splits.tolist() == [0, 1, 3]
    assert column.splits.tolist() == [0, 2, 2, 3, 4]


def test_names_of_parts_are_unique() -> None:
    tensor = Feature.parse("a", "float32[*,*]")
    with pytest.raises(UsageError, match="not unique"):
        Schema("x", (tensor, Feature("a/shape", "int64")))


def test_a_schema_of_an_unknown_kind_is_of_a_newer_version() -> None:
    value = {"record_type": "x", "features": [{"name": "a", "kind": "video", "shape": []}]}
    with pytest.raises(ShardSetError, match="Install the version"):
        Schema.from_json(value)


def test_paths_nest_where_no_feature_is_in_the_way() -> None:
    names = ("objects/bbox", "objects/label", "image", "image/depth", "a//b", "/c")
    schema = Schema("x", tuple(Feature(name, "int64") for name in names))
    assert schema.paths == {
        "objects/bbox": ("objects", "bbox"),
        "objects/label": ("objects", "label"),
        "image": ("image",),
        "image/depth": ("image/depth",),
        "a//b": ("a//b",),
        "/c": ("/c",),
    }


def test_tfds_reads_its_json_of_every_form() -> None:
    from tensorflow_datasets.core import features as tfds_features

    unique = list(dict.fromkeys(form for form, _, _ in STORED))
    schema = Schema(
        "x", tuple(Feature.parse(f"g/f{number}", form) for number, form in enumerate(unique))
    )
    content = tfds_files("x", schema, {})["features.json"]
    read = tfds_features.FeatureConnector.from_json(json.loads(content))
    for number, form in enumerate(unique):
        feature = schema.features[number]
        spec = read["g"][f"f{number}"].get_tensor_info()
        assert [-1 if size is None else size for size in spec.shape] == [
            3 if feature.kind == "image" and place == len(feature.shape) - 1 else size
            for place, size in enumerate(feature.shape)
        ]
        if feature.type.is_number:
            assert np.dtype(spec.np_dtype) == feature.type.dtype, form
